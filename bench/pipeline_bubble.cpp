// The bubble of pipeline parallelism, measured with stages that sleep, and the formula (p - 1) / (m + p - 1):
//     build/release/bin/pipeline_bubble [MILLISECONDS of a forward pass, 20]
// Stages are threads, so they share no core while they sleep. Fails if a share is off by more than 5 % of a step.
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <thread>
#include <vector>

#include "stoker/train/step/pipeline_step.h"

namespace {

using stoker::PipelineOrder;

constexpr std::int64_t kSamples = 64;
constexpr int kSteps = 8;
constexpr double kTolerance = 0.05;  // of a step

int free_port() {
    const int socket_of = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    const bool bound = bind(socket_of, reinterpret_cast<sockaddr*>(&address), length) == 0 &&
                       getsockname(socket_of, reinterpret_cast<sockaddr*>(&address), &length) == 0;
    close(socket_of);
    return bound ? ntohs(address.sin_port) : 0;
}

// One stage, whose backward pass takes twice as long as its forward pass. Returns its idle share.
double idle_share(const std::shared_ptr<stoker::Group>& group, PipelineOrder order, std::int64_t micro_batches,
                  std::chrono::duration<double> forward) {
    const stoker::StageBoundary boundary{.shape = {16}};
    stoker::Account account;
    stoker::PipelineStep pipeline({.stages = group.get(), .order = order, .shapes = {boundary, boundary}}, account);
    std::vector<at::Tensor> inputs(static_cast<std::size_t>(micro_batches));
    const stoker::PipelineStep::Passes passes{
        .forward =
            [&](std::int64_t part, const at::Tensor& input) {
                std::this_thread::sleep_for(forward);
                inputs[static_cast<std::size_t>(part)] = input;
                return at::empty({kSamples / micro_batches, 16});
            },
        .backward =
            [&](std::int64_t part, const at::Tensor& /*output*/, const at::Tensor& /*gradient*/) {
                std::this_thread::sleep_for(2 * forward);
                if (at::Tensor& input = inputs[static_cast<std::size_t>(part)]; input.defined()) {
                    input.mutable_grad() = at::zeros_like(input);
                }
            }};
    for (int step = 0; step < kSteps; ++step) {
        pipeline.run(kSamples, micro_batches, passes);
    }
    pipeline.sum(at::zeros({1}));  // the wait after the last pass, which otherwise counts to the next step
    return pipeline.take_idle_share().value_or(0);
}

std::vector<double> idle_shares(int stages, PipelineOrder order, std::int64_t micro_batches,
                                std::chrono::duration<double> forward) {
    std::vector<double> shares(static_cast<std::size_t>(stages));
    std::vector<std::thread> threads;
    const int port = free_port();
    for (int rank = 0; rank < stages; ++rank) {
        threads.emplace_back([&, rank] {
            try {
                const auto group = std::make_shared<stoker::Group>(stoker::World{.rank = rank,
                                                                                 .size = stages,
                                                                                 .address = "127.0.0.1",
                                                                                 .port = port,
                                                                                 .timeout = std::chrono::seconds(60)});
                shares[static_cast<std::size_t>(rank)] = idle_share(group, order, micro_batches, forward);
            } catch (const std::exception& error) {
                std::fprintf(stderr, "stage %d: %s\n", rank, error.what());
                std::exit(1);
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    return shares;
}

}  // namespace

int main(int argc, char** argv) {
    setenv("TORCH_FR_BUFFER_SIZE", "0", /*overwrite=*/1);  // c10d's flight recorder is shared by the threads
    const std::chrono::duration<double> forward(1e-3 * (argc > 1 ? std::atof(argv[1]) : 20));
    double worst = 0;
    std::printf("stages  micro-batches  schedule  formula  measured on each stage\n");
    for (const auto& [stages, micro_batches] :
         std::vector<std::pair<int, std::int64_t>>{{2, 4}, {4, 4}, {4, 8}, {4, 16}}) {
        for (const PipelineOrder order : {PipelineOrder::one_forward_one_backward, PipelineOrder::gpipe}) {
            const double formula = stoker::bubble_share(stages, micro_batches);
            std::printf("%6d  %13ld  %8s  %5.1f %% ", stages, static_cast<long>(micro_batches),
                        order == PipelineOrder::gpipe ? "gpipe" : "1f1b", 100 * formula);
            for (const double share : idle_shares(stages, order, micro_batches, forward)) {
                std::printf("  %5.1f %%", 100 * share);
                worst = std::max(worst, std::abs(share - formula));
            }
            std::printf("\n");
        }
    }
    std::printf("at most %.1f %% of a step from the formula\n", 100 * worst);
    return worst > kTolerance ? 1 : 0;
}
