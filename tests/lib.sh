# Sourced by what runs tests: counts cases, says how each that failed is run alone, and ends with the line that
# scripts/test reads.

passed=0 failed=0

# The comment at the head of the script, and its end.
usage() {
  sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "$0" >&2
  exit 2
}

# A folder that every user can reach, gone when the script ends, also by a signal.
make_work() { # NAME [PARENT]
  work=$(mktemp -d "${2:-/var/tmp}/$1.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  chmod 755 "$work"
}

# The library under test and the one that it is compared with, as programs find them: $work/ours and $work/theirs.
copy_both() { # NAME OURS THEIRS
  mkdir -p "$work"/{ours,theirs}
  cp -L "$2" "$work/ours/$1"
  cp -L "$3" "$work/theirs/$1"
}

# What is to be tested must have been built.
need_library() { # FILE
  [ -e "$1" ] || { echo "no library $1: build it (cargo build --release) or give --library" >&2; exit 2; }
}

# The arguments of a runner whose only option is --library DIR: `library` is that folder, `cases` what follows.
library_and_cases() { # ARGUMENT...
  library=${CARGO_TARGET_DIR:-$project/target}/release
  while [ $# -gt 0 ]; do
    case $1 in
      --library) library=$2; shift 2;;
      -*) usage;;
      *) break;;
    esac
  done
  cases=("$@")
  library=$(readlink -f "$library")
  need_library "$library/libibverbs.so.1"
}

# The command that compiles a C program of tests; every warning is an error.
compiler=(gcc -std=gnu11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror -pthread)

# The kernel that tests play, to be preloaded.
build_kernel() { # FILE
  local sources=${BASH_SOURCE[0]%/*}/kernel
  "${compiler[@]}" -fPIC -shared "$sources"/*.c -Wl,--version-script="$sources/kernel.map" -o "$1"
}

pass() { passed=$((passed + 1)); }

fail() { # WHAT [COMMAND-THAT-RUNS-IT-ALONE]
  echo "FAILED $1"
  [ -z "${2:-}" ] || echo "  alone: $2"
  failed=$((failed + 1))
}

equal() { # NAME EXPECTED FOUND
  if [ "$2" = "$3" ]; then
    pass
  else
    fail "$1"
    printf '  expected: %s\n  found:    %s\n' "$2" "$3"
  fi
}

# Runs a runner, and adds what its last line counts.
count() { # COMMAND...
  local status=0 said more=0 worse=0
  said=$("$@" 2>&1) || status=$?
  printf '%s\n' "$said"
  if [[ $said =~ ([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
    more=${BASH_REMATCH[1]} worse=${BASH_REMATCH[2]}
  fi
  passed=$((passed + more)) failed=$((failed + worse))
  # What failed without counting why, or counted nothing, has failed all the same.
  if [ "$worse" = 0 ] && { [ $status != 0 ] || [ "$more" = 0 ]; }; then
    fail "status $status, $more passed" "${*#"${BASH_SOURCE[0]%tests/lib.sh}"}"
  fi
}

# Runs each PART[:CASE,...] by the runner's own `run_part [CASE...]`, which finds the name in `part`, and says what
# came of it.
run_parts() { # PART...
  local argument cases started before
  for argument; do
    part=${argument%%:*} cases=()
    [ "$part" = "$argument" ] || IFS=, read -r -a cases <<< "${argument#*:}"
    started=$SECONDS before=$passed/$failed
    run_part "${cases[@]}"
    echo "$part: $((passed - ${before%/*})) passed, $((failed - ${before#*/})) failed, $((SECONDS - started)) s"
  done
}

# What `work` has in out/, for who asked for it, and after a failure.
keep_outputs() { # FOLDER, or nothing
  local keep=$1
  if [ -z "$keep" ] && [ "$failed" != 0 ]; then keep=$(mktemp -d); fi
  if [ -n "$keep" ]; then cp -r "$work/out/." "$keep/"; echo "outputs are in $keep"; fi
}

finish() { # [NAME]: false where nothing passed, too
  echo "${1:+$1: }$passed passed, $failed failed"
  [ "$failed" = 0 ] && [ "$passed" -gt 0 ]
}
