/*
 * mirrored.c - preloaded: the peers of a program's queue pairs are its own, by the network.
 *
 * A process reaches itself through its own memory. In a host with the cable that `link --mirror` makes, what goes to an address
 * whose last byte has its upper bit comes back from there. So each destination that a program names gets that bit: the queue
 * pair that it meant receives from this address, as if another host had it. Groups, loopback addresses and XRC stay. Time-outs
 * are of a second at least.
 */
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONG 18 /* 1.07 s */

/* The library's own, also where a plugin of the program has loaded that for itself. */
static void *real(const char *name)
{
	void *library = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD), *function = library ? dlsym(library, name) : NULL;

	if (!function) {
		fprintf(stderr, "mirrored: no %s\n", name);
		abort();
	}
	return function;
}

/* An address of the loopback interface, which no packet leaves by. */
static bool is_loopback(const union ibv_gid *gid)
{
	static const unsigned char v6[16] = {[15] = 1}, v4[13] = {[10] = 0xff, 0xff, 127};

	return !memcmp(gid->raw, v6, 16) || !memcmp(gid->raw, v4, 13);
}

/* What no packet of the network is for. */
static bool is_near(const struct ibv_qp *qp)
{
	return qp->qp_type == IBV_QPT_XRC_SEND || qp->qp_type == IBV_QPT_XRC_RECV;
}

static struct ibv_ah_attr away(const struct ibv_ah_attr *attr)
{
	struct ibv_ah_attr changed = *attr;

	if (attr->is_global && attr->grh.dgid.raw[0] != 0xff && !is_loopback(&attr->grh.dgid))
		changed.grh.dgid.raw[15] |= 0x80;
	return changed;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	int (*modify)(struct ibv_qp *, struct ibv_qp_attr *, int) =
		(int (*)(struct ibv_qp *, struct ibv_qp_attr *, int))real("ibv_modify_qp");
	struct ibv_qp_attr before = *attr;
	int status;

	if (is_near(qp))
		return modify(qp, attr, mask);
	if (mask & IBV_QP_AV)
		attr->ah_attr = away(&before.ah_attr);
	/* Tests give a peer half a second in all, which the cable may wait for a processor. */
	if ((mask & IBV_QP_TIMEOUT) && attr->timeout && attr->timeout < LONG)
		attr->timeout = LONG;
	status = modify(qp, attr, mask);
	attr->ah_attr = before.ah_attr;
	attr->timeout = before.timeout;
	return status;
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct ibv_ah *(*create)(struct ibv_pd *, struct ibv_ah_attr *) =
		(struct ibv_ah * (*)(struct ibv_pd *, struct ibv_ah_attr *))real("ibv_create_ah");
	struct ibv_ah_attr changed = away(attr);

	return create(pd, &changed);
}
