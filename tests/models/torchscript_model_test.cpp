// Errors of TorchScript's interpreter, which are plain text, become LibTorch's errors again: running out of memory,
// after which a step is retried in smaller parts, and all others. Tensors that a file has besides its weights.
#include "stoker/models/torchscript_model.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/api/module.h>

#include <string>
#include <tuple>

#include "stoker/base/error.h"
#include "stoker/bridge/device.h"
#include "stoker/bridge/torch_error.h"
#include "stoker/models/torchscript_export.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The error of a script whose forward pass is `body`, and whether it says that memory ran out.
std::pair<std::string, bool> forward_error(const std::string& body) {
    const testing::TempDir folder;
    const std::string path = folder / "net.pt";
    torch::jit::Module module("net");
    module.register_parameter("weight", at::ones({2, 3}), /*is_buffer=*/false);
    module.define("def forward(self, x):\n    return " + body + "\n");
    module.save(path);
    TorchScriptModel model(path);
    try {
        model.forward(at::ones({2, 3}));
    } catch (const c10::Error& error) {
        return {first_line_of(error), is_out_of_memory(error)};
    }
    ADD_FAILURE() << "nothing was thrown";
    return {};
}

TEST(TorchScriptModel, ErrorsKeepTheirKind) {
    const auto [full, out_of_memory] = forward_error("x + torch.zeros([1125899906842624]).sum()");
    EXPECT_TRUE(out_of_memory) << full;
    EXPECT_THAT(full, HasSubstr("DefaultCPUAllocator"));
    EXPECT_THAT(full, Not(HasSubstr("Traceback")));
    const auto [shapes, shapes_out_of_memory] = forward_error("torch.mm(x, self.weight)");
    EXPECT_FALSE(shapes_out_of_memory) << shapes;
    EXPECT_THAT(shapes, HasSubstr("cannot be multiplied"));
}

TEST(TorchScriptModel, ABufferThatForwardReplacesIsRefused) {
    const testing::TempDir folder;
    for (const bool replaces : {false, true}) {
        torch::jit::Module module("net");
        module.register_parameter("weight", at::ones({3}), /*is_buffer=*/false);
        module.register_parameter("mean", at::zeros({3}), /*is_buffer=*/true);
        module.define("def forward(self, x):\n    " +
                      std::string(replaces ? "self.mean = self.mean + 1" : "self.mean.add_(1)") +
                      "\n    return x * self.weight + self.mean\n");
        module.save(folder / "net.pt");
        if (!replaces) {
            TorchScriptModel(folder / "net.pt").forward(at::ones({3}));
            continue;
        }
        EXPECT_THAT([&] { TorchScriptModel(folder / "net.pt"); },
                    ::testing::ThrowsMessage<DataError>(HasSubstr("write self.mean.copy_(...) instead")));
    }
}

TEST(TorchScriptModel, AnExpandedBufferCanBeLoaded) {
    const testing::TempDir folder;
    torch::jit::Module module("net");
    module.register_parameter("weight", at::ones({2, 3}), /*is_buffer=*/false);
    module.register_parameter("grid", at::ones({3}).expand({2, 3}), /*is_buffer=*/true);
    module.define("def forward(self, x):\n    return x * self.weight + self.grid\n");
    module.save(folder / "net.pt");
    TorchScriptModel model(folder / "net.pt");
    model.load(TorchScriptModel(folder / "net.pt").state());
    EXPECT_TRUE(at::equal(model.forward(at::ones({2, 3})), at::full({2, 3}, 2.0)));
}

// A model with a tensor that is neither a parameter nor a buffer: a trace makes it a constant.
class WithConstant final : public Model {
  public:
    WithConstant() { weight_ = parameter("weight", at::ones({2, 3})); }
    at::Tensor forward(const at::Tensor& input) override {
        return at::linear(input, weight_).mul(factors_).add(number_);
    }

  private:
    at::Tensor weight_;
    at::Tensor factors_ = at::full({2}, 3.0);
    at::Tensor number_ = at::full({}, 4.0);
};

std::string traced(const std::string& folder) {
    WithConstant model;
    const std::string path = folder + "/traced.pt";
    save_torchscript(model, {3}, path);
    return path;
}

// Plain attributes, in containers and in a module within.
std::string scripted(const std::string& folder) {
    torch::jit::Module inner("inner");
    inner.register_attribute("shift", c10::TensorType::get(), at::full({2}, 4.0));
    torch::jit::Module module("net");
    module.register_parameter("weight", at::ones({2, 3}), /*is_buffer=*/false);
    module.register_parameter("mean", at::zeros({3}), /*is_buffer=*/true);
    module.register_attribute("number", c10::TensorType::get(), at::full({}, 1.0));
    module.register_attribute("factors", c10::ListType::ofTensors(), c10::List<at::Tensor>({at::full({2}, 3.0)}));
    module.register_module("inner", inner);
    module.define(R"(
def forward(self, x):
    return torch.linear(x - self.mean, self.weight) * self.factors[0] * self.number + self.inner.shift
)");
    const std::string path = folder + "/scripted.pt";
    module.save(path);
    return path;
}

std::vector<at::Tensor> constants_of(const std::string& path) {
    return TorchScriptModel(path).constants();
}

TEST(TorchScriptModel, NamesTheTensorsThatAreNeitherParametersNorBuffers) {
    const testing::TempDir folder;
    const std::vector<at::Tensor> of_trace = constants_of(traced(folder.path().string()));
    ASSERT_EQ(of_trace.size(), 1U);
    EXPECT_TRUE(at::equal(of_trace[0], at::full({2}, 3.0)));
    const std::vector<at::Tensor> of_script = constants_of(scripted(folder.path().string()));
    ASSERT_EQ(of_script.size(), 2U);
    EXPECT_TRUE(at::equal(std::get<0>(at::stack(of_script).sum(1).sort()), at::tensor({6.0F, 8.0F})));
}

// The tensors are those that a pass reads: new values in them count.
TEST(TorchScriptModel, APassReadsTheTensorsThatMove) {
    const testing::TempDir folder;
    for (const std::string& path : {traced(folder.path().string()), scripted(folder.path().string())}) {
        TorchScriptModel model(path);
        model.train(false);
        const at::Tensor input = at::ones({1, 3});
        const at::Tensor before = model.forward(input);
        for (const at::Tensor& tensor : model.constants()) {
            tensor.set_data(at::zeros_like(tensor));
        }
        EXPECT_FALSE(at::equal(model.forward(input), before));
        EXPECT_LE(model.forward(input).abs().max().item<double>(), 4) << path;
    }
}

TEST(TorchScriptModelCuda, EverythingMovesToTheDevice) {
    const at::Device device = pick_device("auto");
    if (!device.is_cuda()) {
        GTEST_SKIP() << "no CUDA device";
    }
    const testing::TempDir folder;
    for (const std::string& path : {traced(folder.path().string()), scripted(folder.path().string())}) {
        TorchScriptModel model(path);
        model.train(false);
        const at::Tensor expected = model.forward(at::ones({2, 3}));
        model.to(device, false);
        EXPECT_TRUE(at::equal(model.forward(at::ones({2, 3}).to(device)).to(at::kCPU), expected)) << path;
    }
}

}  // namespace
}  // namespace stoker
