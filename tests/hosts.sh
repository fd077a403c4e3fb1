# Sourced by a shell in a network namespace of its own: another one joined to it by a veth pair. `there` runs a command in it;
# 10.9.0.1 is the address here, 10.9.0.2 the one there. Who sourced it ends with `kill $other`.
unshare --net sleep 300 & other=$!
until [ "$(readlink /proc/$other/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.05; done
there=(nsenter --net --target "$other")
ip link add left type veth peer name right netns "$other"
ip link set lo up; ip link set left up mtu 9000; ip addr add 10.9.0.1/24 dev left
"${there[@]}" bash -c "ip link set lo up; ip link set right up mtu 9000; ip addr add 10.9.0.2/24 dev right"
