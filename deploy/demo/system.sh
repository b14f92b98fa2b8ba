# Check which programs this machine has:
#   sh system.sh needed    Python and Java, for an installation
#   sh system.sh all       also programs that the demo and the tests use
#   sh system.sh test-all  also programs of long tests
# As root, or with SYSTEM=yes, `all` and `test-all` install missing programs with apt-get. Otherwise the script prints a
# sentence for each missing program.
set -u
scope=${1:-all}
tried=.cache/apt-tried-$scope

if [ -z "${PYTHON:-}" ]; then
  echo "There is no Python 3.11, 3.12 or 3.13 on the PATH; install one (Debian: apt-get install python3-venv;" \
    "macOS: brew install python@3.12) or name it: make PYTHON=/path/to/python3" >&2
  exit 1
fi

java_version() {
  "${JAVA_HOME:+$JAVA_HOME/bin/}java" -version 2>&1 | sed -n 's/.* version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' | head -1
}
runs_java() { [ "$(java_version)" -ge 17 ] 2>/dev/null; }
has_java() { runs_java && "${JAVA_HOME:+$JAVA_HOME/bin/}java" --list-modules | grep -q '^jdk.compiler@'; }
has_venv() { "$PYTHON" -c 'import ensurepip' 2>/dev/null || command -v uv >/dev/null; }
has_prometheus() { command -v prometheus >/dev/null && command -v promtool >/dev/null; }
has_alertmanager() { command -v prometheus-alertmanager >/dev/null || command -v alertmanager >/dev/null; }
has_chromium() {
  command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null ||
    [ -d "/Applications/Google Chrome.app" ] || [ -d /Applications/Chromium.app ]
}
has_kdc() {
  [ "$scope" != test-all ] || { [ -x /usr/sbin/krb5kdc ] && [ -x /usr/sbin/kadmin.local ] && command -v krb5-config >/dev/null; }
}

packages() {
  has_venv || echo "python3-venv"
  has_java || for jdk in openjdk-17-jdk-headless openjdk-21-jdk-headless default-jdk-headless; do
    apt-cache show "$jdk" >/dev/null 2>&1 && { echo "$jdk"; break; }
  done
  has_prometheus || echo prometheus
  has_alertmanager || echo prometheus-alertmanager
  has_chromium || echo chromium
  has_kdc || printf '%s\n' krb5-kdc krb5-admin-server libkrb5-dev
}

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

install() {
  # Keep apt-get from starting the servers of the installed packages, because the demo starts its own servers.
  policy=/usr/sbin/policy-rc.d
  if [ ! -e $policy ]; then
    printf '#!/bin/sh\nexit 101\n' | as_root tee $policy >/dev/null && as_root chmod +x $policy
    trap 'as_root rm -f $policy' EXIT INT TERM
  fi
  for package in $(packages); do
    echo "installing $package" >&2
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$package" \
      >.cache/apt.log 2>&1 || echo "apt-get could not install $package; see .cache/apt.log" >&2
  done
}

no_venv() {
  echo "Python's venv is missing; install it: apt-get install python3-venv" >&2
  exit 1
}

mkdir -p .cache
if [ "$scope" = needed ]; then
  has_venv || no_venv
  runs_java || echo "Java 17 or later is missing: doctor and monitor need it (Debian: apt-get install openjdk-17-jre-headless;" \
    "macOS: brew install openjdk@17, then set JAVA_HOME)." >&2
  exit 0
fi
if ! { has_venv && has_java && has_prometheus && has_alertmanager && has_chromium && has_kdc; }; then
  # Run apt-get at most once a day.
  if ! command -v apt-get >/dev/null; then
    :
  elif [ "$(id -u)" != 0 ] && ! { [ "${SYSTEM:-no}" = yes ] && sudo -n true 2>/dev/null; }; then
    echo "Missing on this machine:" $(packages)". Run make with SYSTEM=yes to have them installed by sudo apt-get." >&2
  elif [ -z "$(find "$tried" -mtime -1 2>/dev/null)" ]; then
    echo "apt-get installs:" $(packages) >&2
    as_root apt-get update -qq >.cache/apt.log 2>&1 || echo "apt-get update failed; see .cache/apt.log" >&2
    install
    touch "$tried"
  fi
fi

has_prometheus || echo "Prometheus is missing (Debian: apt-get install prometheus; macOS: brew install prometheus):" \
  "the demo runs without alerts, and the tests of alert rules are skipped." >&2
has_alertmanager || echo "Alertmanager is missing (Debian: apt-get install prometheus-alertmanager; macOS: see" \
  "github.com/prometheus/alertmanager): the demo pages nobody, and the end-to-end test is skipped." >&2
has_chromium || echo "Chromium is missing (Debian: apt-get install chromium; macOS: brew install --cask chromium):" \
  "the tests that look at pages in a browser are skipped." >&2
has_kdc || echo "A Kerberos KDC is missing (Debian: apt-get install krb5-kdc krb5-admin-server libkrb5-dev): the test of" \
  "its login is skipped." >&2
has_venv || no_venv
has_java || {
  echo "A Java development kit, 17 or later, is missing, and nothing runs without it; install it (Debian: apt-get" \
    "install openjdk-17-jdk-headless; macOS: brew install openjdk@17, then set JAVA_HOME)." >&2
  exit 1
}
