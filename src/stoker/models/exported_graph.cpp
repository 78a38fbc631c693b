// A compiled graph is a shared library inside the file, which LibTorch unpacks and opens.
#include "stoker/models/exported_graph.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/Exception.h>
#include <dlfcn.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

#include <optional>
#include <string_view>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/bridge/torch_error.h"
#include "stoker/models/graph_interpreter.h"
#include "stoker/models/graph_program.h"

namespace stoker {
namespace {

[[noreturn]] void refuse(const std::string& path, const std::string& name, std::string_view why) {
    throw DataError({.path = path}, {.where = "model.export",
                                     .expected = "a graph \"" + name + "\" that LibTorch can load",
                                     .got = first_sentence(why)});
}

}  // namespace

struct ExportedGraph::Runner {
    GraphProgram interpreted;
    std::optional<torch::inductor::AOTIModelPackageLoader> compiled;
};

ExportedGraph::ExportedGraph(const ZipFile& file, const std::string& path, const std::string& name, bool compiled,
                             const at::Device& device)
    : runner_(std::make_unique<Runner>()) {
    try {
        if (compiled) {
            dlopen("libtorch.so", RTLD_NOW | RTLD_GLOBAL);  // an empty library that compiled ones depend on
            // For several threads LibTorch would wait for the last run's event, which a CUDA graph cannot capture.
            constexpr bool kOneThread = true;
            constexpr std::size_t kRunners = 1;
            runner_->compiled.emplace(file.file()->descriptor_path(), name, kOneThread, kRunners, device.index());
        } else {
            runner_->interpreted = with_place({.path = path}, [&] { return read_graph_program(file, name, device); });
        }
    } catch (const Error&) {
        throw;
    } catch (const c10::Error& error) {
        refuse(path, name, error.what_without_backtrace());
    } catch (const std::exception& error) {
        refuse(path, name, error.what());
    }
}

ExportedGraph::ExportedGraph(ExportedGraph&&) noexcept = default;
ExportedGraph::~ExportedGraph() = default;

std::vector<at::Tensor> ExportedGraph::run(std::vector<at::Tensor> inputs) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    if (runner_->compiled) {
        return runner_->compiled->run(inputs);
    }
    // The file has its own casts.
    const c10::impl::ExcludeDispatchKeyGuard without_autocast(c10::autocast_dispatch_keyset);
    return run_graph(runner_->interpreted, std::move(inputs));
}

}  // namespace stoker
