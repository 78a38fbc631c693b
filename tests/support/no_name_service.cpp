// Preloaded into tests: names of addresses are numbers. c10d's store asks for the name of each address that connects,
// and where the name service does not answer, that takes seconds.
#include <dlfcn.h>
#include <netdb.h>

extern "C" int getnameinfo(const sockaddr* address, socklen_t size, char* host, socklen_t host_size, char* service,
                           socklen_t service_size, int flags) {
    static const auto next = reinterpret_cast<decltype(&getnameinfo)>(dlsym(RTLD_NEXT, "getnameinfo"));
    return next(address, size, host, host_size, service, service_size, flags | NI_NUMERICHOST);
}
