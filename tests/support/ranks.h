// Several ranks as threads of one test, each with its own process group, on a free port.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "stoker/dist/group.h"

namespace stoker::testing {

// Takes `port` of the loopback for a moment, or any if it is 0. Returns the port; -1: another socket listens on it.
inline int take_port(int port) {
    const int socket_of = socket(AF_INET, SOCK_STREAM, 0);
    const int reuse = 1;  // the store can bind meanwhile, and this fails once it listens
    EXPECT_EQ(setsockopt(socket_of, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse), 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    socklen_t length = sizeof address;
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    const bool taken = bind(socket_of, generic, length) == 0 && getsockname(socket_of, generic, &length) == 0;
    close(socket_of);
    return taken ? ntohs(address.sin_port) : -1;
}

inline int free_port() {
    const int port = take_port(0);
    EXPECT_GT(port, 0);
    return port;
}

// Runs `work` as each of `count` ranks. Returns the error of each rank, "" for none.
inline std::vector<std::string> as_ranks(int count, const std::function<void(const std::shared_ptr<Group>&)>& work,
                                         std::chrono::milliseconds timeout = std::chrono::seconds(20)) {
    // c10d's flight recorder is shared by the process; several groups at once corrupt it.
    setenv("TORCH_FR_BUFFER_SIZE", "0", /*overwrite=*/1);
    const int port = free_port();
    std::vector<std::string> errors(static_cast<std::size_t>(count));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < count; ++rank) {
        // c10d sleeps for half a second and more where rank 0's store does not listen yet.
        for (int polls = 0; rank == 1 && take_port(port) == port && polls < 1000; ++polls) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        threads.emplace_back([&, rank] {
            try {
                work(std::make_shared<Group>(World{.rank = rank,
                                                   .size = count,
                                                   .local_rank = rank,
                                                   .address = "127.0.0.1",
                                                   .port = port,
                                                   .timeout = timeout}));
            } catch (const std::exception& error) {
                errors[static_cast<std::size_t>(rank)] = error.what();
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    return errors;
}

}  // namespace stoker::testing
