# Sourced by what runs tests: counts cases, says how each that failed is run alone, and ends with the line that
# scripts/test reads.

passed=0 failed=0

# The comment at the head of the script, and its end.
usage() {
  sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "$0" >&2
  exit 2
}

# A folder that every user can reach, gone when the script ends.
make_work() { # NAME
  work=$(mktemp -d "/var/tmp/$1.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  chmod 755 "$work"
}

# What is to be tested must have been built.
need_library() { # FILE
  [ -e "$1" ] || { echo "no library $1: build it (cargo build --release) or give --library" >&2; exit 2; }
}

# The command that compiles a C program of tests; every warning is an error.
compiler=(gcc -std=gnu11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror -pthread)

pass() { passed=$((passed + 1)); }

fail() { # WHAT [COMMAND-THAT-RUNS-IT-ALONE]
  echo "FAILED $1"
  [ -z "${2:-}" ] || echo "  alone: $2"
  failed=$((failed + 1))
}

# Runs a runner, and adds what its last line counts.
count() { # COMMAND...
  local status=0 said
  said=$("$@" 2>&1) || status=$?
  printf '%s\n' "$said"
  if [[ $said =~ ([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
    passed=$((passed + BASH_REMATCH[1])) failed=$((failed + BASH_REMATCH[2]))
  fi
  # A runner that failed without counting why has failed all the same.
  [ $status = 0 ] || [[ $said =~ \ [1-9][0-9]*\ failed$ ]] || fail "status $status" "${*#"${BASH_SOURCE[0]%tests/lib.sh}"}"
}

# Runs each PART[:CASE,...] by the runner's own `run_part [CASE...]`, which finds the name in `part`, and says what came
# of it.
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
