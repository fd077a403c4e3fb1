# Sourced after lib.sh by runners that compare with other releases of rdma-core than the installed one. What the packages
# of a Debian suite say is kept in files of facts, so that the same is compared whatever the suite has by now, and without a
# network. The first line of each file says of which version it is:
#
#   # rdma-core VERSION of Debian SUITE; written by RUNNER --record SUITE
#
# A runner with --record writes them, with --suites it says whether they are what the suite has today.

facts_head='# rdma-core [^ ]* of Debian [a-z-]*; written by '

# The facts alone. A file without them is a mistake, and not one with which everything agrees.
facts() { # FILE
  head -n 1 "$1" | grep -q "^$facts_head" && [ "$(wc -l < "$1")" -gt 1 ] || { echo "no facts are in $1" >&2; return 1; }
  sed 1d "$1"
}
facts_version() { sed -n '1s/^# rdma-core \([^ ]*\) of Debian .*/\1/p' "$1"; } # FILE

# The packages of a suite as the archive has them today, not as debian-release has kept them. SUITES_TODAY is a folder for
# runners that share what one of them has loaded.
share_suites() {
  [ -z "${SUITES_TODAY:-}" ] || return 0
  make_work suites
  export SUITES_TODAY=$work
}
suite_today() { # SUITE: prints the folder
  XDG_CACHE_HOME=${SUITES_TODAY:-$work/suites} "$project/scripts/debian-release" "$1"
}
suite_version() { head -n 1 "$1/complete"; } # FOLDER

record_facts() { # FILE SUITE VERSION RUNNER FOUND
  mkdir -p "$(dirname "$1")"
  { echo "# rdma-core $3 of Debian $2; written by $4 --record $2"; cat "$5"; } > "$1"
  echo "$1 has $(wc -l < "$5") lines of rdma-core $3 of $2"
}

# Whether facts are those that the suite has today.
check_facts() { # FILE SUITE VERSION RUNNER FOUND
  local version=''
  [ ! -e "$1" ] || version=$(facts_version "$1")
  facts "$1" > "$work/kept-facts" || true
  check_kept "${1#"$project/"}" "$work/kept-facts" "$version" "$2" "$3" "$4 --suites" "$4 --record $2" "$5"
}
check_kept() { # NAME KEPT ITS-VERSION SUITE VERSION ALONE RECORD FOUND
  local since=''
  if [ "$3" != "$5" ]; then
    since=" (kept from ${3:-nothing})"
    ! dpkg --compare-versions "$5" gt "${3:-0}" || since=" ($4 has a newer version than the ${3:-nothing} that is kept)"
  fi
  if [ -s "$8" ] && cmp -s "$2" "$8"; then
    echo "ok $1 is what rdma-core $5 of $4 has$since"
    pass
  else
    fail "$1 is not what rdma-core $5 of $4 has$since" "$6"
    echo "  written by: $7"
    diff "$2" "$8" | head -n 20 | sed 's/^/  /' || true
  fi
}

# What stands beside the facts is the system's own package.
installed_is() { # RELEASE PACKAGE...
  local release=$1 package version; shift
  for package; do
    version=$(dpkg-query -W -f '${Version}' "$package" 2> /dev/null) || version=none
    if [[ $version == "$release".* ]]; then
      pass
    else
      fail "installed is $package $version: this compares with rdma-core $release, which Debian 12 has"
    fi
  done
}
