// A socket for datagrams gets its own address when it is connected, before anything is sent.
#include "stoker/dist/local_address.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <memory>

namespace stoker {
namespace {

// Empty if nothing leads to `target`.
std::string own_address(const addrinfo& target) {
    const int socket = ::socket(target.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (socket < 0) {
        return "";
    }
    sockaddr_storage own{};
    socklen_t size = sizeof own;
    std::array<char, NI_MAXHOST> text{};
    auto* const address = reinterpret_cast<sockaddr*>(&own);
    const bool known = connect(socket, target.ai_addr, target.ai_addrlen) == 0 &&
                       getsockname(socket, address, &size) == 0 &&
                       getnameinfo(address, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) == 0;
    close(socket);
    return known ? text.data() : "";
}

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

// Null for an unknown host.
AddressList addresses_of(const std::string& host, int port) {
    addrinfo wanted{};
    wanted.ai_family = AF_UNSPEC;
    wanted.ai_socktype = SOCK_DGRAM;
    addrinfo* found = nullptr;
    const int failed = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &found);
    return {failed != 0 ? nullptr : found, freeaddrinfo};
}

}  // namespace

std::string address_towards(const std::string& host, int port) {
    const AddressList found = addresses_of(host, port);
    for (const addrinfo* target = found.get(); target != nullptr; target = target->ai_next) {
        if (std::string own = own_address(*target); !own.empty()) {
            return own;
        }
    }
    return "";
}

bool is_known_host(const std::string& host) {
    return addresses_of(host, 0) != nullptr;
}

}  // namespace stoker
