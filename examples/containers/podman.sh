#!/bin/sh
# The same with podman, as a user without rights: each container has a user namespace of its own, too.
#
#     examples/containers/podman.sh
set -eu
cd "$(dirname "$0")/../.."
podman build -f examples/containers/Containerfile -t ironverbs .
podman network create --ignore rdma
# A folder of this user's; a volume of type tmpfs needs root.
shm=$(mktemp -d /dev/shm/rdma.XXXXXX)
trap 'podman rm --force --ignore --time 0 rdma-server; rm -rf "$shm"' EXIT
run() { podman run --network rdma --volume "$shm:/shm" "$@"; }
run --detach --name rdma-server ironverbs ib_write_bw -F -d soft0 -x 1
sleep 2
run --rm ironverbs ib_write_bw -F -d soft0 -x 1 rdma-server
