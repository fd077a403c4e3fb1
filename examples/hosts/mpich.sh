#!/bin/sh
# Runs a program of MPICH on these hosts, on the software device of each:
#
#     examples/hosts/mpich.sh HOST,HOST[:RANKS],... PROGRAM [ARGUMENT]...
#
# Each host has ironverbs, an MPICH that goes by UCX (Debian's does: `mpichversion` says ch4:ucx) and the program at the same
# paths, is reached by ssh, and has the interface $INTERFACE (default eth0). UCX takes shared memory between ranks of one host
# and the device between hosts: RC, for which it wires up by UD.
set -eu
hosts=$1 interface=${INTERFACE:-eth0}
shift
# Each rank has the environment of its own host, not that of this one.
exec mpiexec.hydra -iface "$interface" -hosts "$hosts" -genvnone \
  -genv UCX_TLS "${UCX_TLS:-rc_verbs,ud_verbs,posix,cma,self}" -genv UCX_NET_DEVICES "${UCX_NET_DEVICES:-soft0:1}" \
  ironverbs run --network "$interface" "$@"
