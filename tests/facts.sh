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
  local name=${1#"$project/"} kept=''
  [ ! -e "$1" ] || kept=$(facts_version "$1")
  if [ -s "$5" ] && facts "$1" > "$work/kept-facts" && cmp -s "$work/kept-facts" "$5"; then
    echo "ok $name has what rdma-core $3 of $2 has$(suite_moved "$kept" "$3")"
    pass
  else
    fail "$name of rdma-core ${kept:-?} is not what rdma-core $3 of $2 has$(suite_moved "$kept" "$3")" "$4 --suites"
    echo "  to be written by: $4 --record $2"
    diff "$work/kept-facts" "$5" | head -n 20 | sed 's/^/  /' || true
  fi
}
suite_moved() { # KEPT TODAY: what to say of the two
  [ "$1" = "$2" ] || echo "; the suite has a newer version than the kept $1"
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
