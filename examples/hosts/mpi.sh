#!/bin/sh
# Runs a program of Open MPI on these hosts, on the software device of each:
#
#     examples/hosts/mpi.sh HOST,HOST[:RANKS],... PROGRAM [ARGUMENT]...
#
# Each host has ironverbs, Open MPI with UCX and the program at the same paths, is reached by ssh, and has the interface
# $INTERFACE (default eth0). UCX takes shared memory between ranks of one host and the device between hosts: RC, for which it
# wires up by UD.
set -eu
hosts=$1 interface=${INTERFACE:-eth0}
shift
exec mpirun --host "$hosts" \
  --mca oob_tcp_if_include "$interface" --mca btl_tcp_if_include "$interface" \
  --mca pml ucx --mca osc ucx --mca opal_common_ucx_tls any --mca opal_common_ucx_devices any \
  -x UCX_TLS="${UCX_TLS:-rc_verbs,ud_verbs,posix,cma,self}" -x UCX_NET_DEVICES="${UCX_NET_DEVICES:-soft0:1}" \
  ironverbs run --network "$interface" "$@"
