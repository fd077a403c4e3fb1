/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Old names of the kernel's path record; new programs use <rdma/ib_user_sa.h>. */

#ifndef INFINIBAND_SA_KERN_ABI_H
#define INFINIBAND_SA_KERN_ABI_H

#include <rdma/ib_user_sa.h>

#define ib_kern_path_rec ib_user_path_rec
#define ibv_kern_path_rec ib_user_path_rec

#endif /* INFINIBAND_SA_KERN_ABI_H */
