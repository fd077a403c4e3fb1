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

# The command that compiles a C program of tests; every warning is an error.
compiler=(gcc -std=gnu11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror -pthread)

pass() { passed=$((passed + 1)); }

fail() { # WHAT [COMMAND-THAT-RUNS-IT-ALONE]
  echo "FAILED $1"
  [ -z "${2:-}" ] || echo "  alone: $2"
  failed=$((failed + 1))
}

finish() { # [NAME]: false where nothing passed, too
  echo "${1:+$1: }$passed passed, $failed failed"
  [ "$failed" = 0 ] && [ "$passed" -gt 0 ]
}
