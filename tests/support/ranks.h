// Several ranks as threads of one test, each with its own process group, on a free port.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "stoker/dist/group.h"

namespace stoker::testing {

inline int free_port() {
    const int socket_of = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    EXPECT_EQ(bind(socket_of, reinterpret_cast<sockaddr*>(&address), length), 0);
    EXPECT_EQ(getsockname(socket_of, reinterpret_cast<sockaddr*>(&address), &length), 0);
    close(socket_of);
    return ntohs(address.sin_port);
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
