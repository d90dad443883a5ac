# Sourced by quickstart.sh and test.sh: need PACKAGE... installs what is missing (Debian 12 and relatives).
need() {
  local missing=() p
  for p in "$@"; do
    dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'install ok installed' || missing+=("$p")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  command -v apt-get >/dev/null || { echo "fewbit: apt-get not found; install by hand: ${missing[*]}" >&2; return 1; }
  local sudo=""
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "fewbit: run as root or install sudo; missing packages: ${missing[*]}" >&2; return 1; }
    sudo=sudo
  fi
  echo "fewbit: installing ${missing[*]}"
  $sudo env DEBIAN_FRONTEND=noninteractive apt-get update -qq
  $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

build_packages=(g++ cmake ninja-build pkg-config libfmt-dev libspdlog-dev nlohmann-json3-dev libcli11-dev libpcre2-dev zlib1g-dev)
test_packages=(libgtest-dev clang libclang-rt-14-dev clang-format clang-tidy python3 python3-venv python3-pip qemu-user unzip
               g++-aarch64-linux-gnu libc6-dev-arm64-cross libsimde-dev)
