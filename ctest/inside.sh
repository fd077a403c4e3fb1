#!/usr/bin/env bash
# inside.sh: the part of ctest/run that runs in the guest. Reads "label program timeout arguments" lines from
# the shared folder's "runs" and runs every program on every variant that the host prepared, into out/<variant>/.
#
#   reference  built against the distribution's headers, on the distribution's library
#   again      the same a second time (only with --self); again.1 and so on, as the shared folder's "references" names them
#   ours       the same binary on the library under test
#   plugins    the same as ours, with rdma-core's plugins preferred to the library's own providers
#   relinked   built against the headers under test, on the library under test; the loader tells what it calls, which
#              tests/reached reads from the shared folder's bindings/PROGRAM
#
# out/served/<variant>.<label> says whose functions served the devices that the program opened.
set -u
share=${GUEST_SHARE:-/hostshare}
mkdir -p /tmp/ctest && cd /tmp/ctest || exit 1
cp -r "$share"/bin "$share"/lib .   # the share's pages would be read again for every start
mkdir -m 1777 bindings              # some programs give up their rights

one() { # variant binary-folder library-path program label timeout arguments...
  local variant=$1 folder=$2 path=$3 program=$4 label=$5 limit=$6 launcher='' tell=() served status
  shift 6
  [ -x "$folder/$program" ] || return 0
  case $label in legacy.*) launcher=bin/launcher/without_ioctl;; esac
  [ "$variant" != relinked ] || tell=(LD_DEBUG=bindings "LD_DEBUG_OUTPUT=$PWD/bindings/$program")
  mkdir -p "out/$variant" out/served
  served=$PWD/out/served/$variant.$label
  : > "$served"
  chmod 666 "$served"   # some programs give up their rights
  CTEST_SERVED=$served LD_LIBRARY_PATH=$path timeout -k 5 "$limit" env "${tell[@]}" $launcher "$folder/$program" "$@" \
    < /dev/null > "out/$variant/$label" 2> "out/$variant/$label.err"
  status=$?
  [ $status -eq 0 ] || echo "exit status $status" >> "out/$variant/$label"
}

variants=$(cat "$share/variants" 2> /dev/null)
has() { [[ ,$variants, = *,$1,* ]]; }
started=$(date +%s%N)
while read -r label program limit arguments; do
  set -- $arguments
  # What rdma-core's provider cannot do is not asked of it: it may hang.
  case $program in ours_only_*) ;; *) one reference bin/distribution "" "$program" "$label" "$limit" "$@";; esac
  for again in $(cat "$share/references" 2> /dev/null); do
    [[ $program == ours_only_* ]] || one "$again" bin/distribution "" "$program" "$label" "$limit" "$@"
  done
  if [ -e "$share/self" ]; then one again bin/distribution "" "$program" "$label" "$limit" "$@"; fi
  if [ -e lib/libibverbs.so.1 ]; then
    ! has ours || one ours bin/distribution "$PWD/lib" "$program" "$label" "$limit" "$@"
    if has plugins && [[ $program != ours_only_* ]]; then
      export IRONVERBS_PLUGINS=1
      one plugins bin/distribution "$PWD/lib" "$program" "$label" "$limit" "$@"
      unset IRONVERBS_PLUGINS
    fi
    ! has relinked || one relinked bin/relinked "$PWD/lib" "$program" "$label" "$limit" "$@"
  fi
  finished=$(date +%s%N)
  printf '%-28s %6d ms\n' "$label" $(((finished - started) / 1000000))
  started=$finished
done < "$share/runs"

if [ -e lib/libibverbs.so.1 ]; then
  set -- bin/distribution/*
  LD_LIBRARY_PATH=$PWD/lib ldd "$1" | grep libibverbs.so.1 > out/loaded
fi
dmesg | grep -E 'BUG|WARNING|Oops|Call Trace|rxe' > out/kernel-messages
cp -r out "$share"/
mkdir -p "$share/bindings"
while read -r program; do
  cat "bindings/$program".* 2> /dev/null | grep -F libibverbs.so.1 > "$share/bindings/$program" || true
done < <(cut -d ' ' -f 2 "$share/runs" | sort -u)
