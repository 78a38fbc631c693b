// Errors of TorchScript's interpreter, which are plain text, become LibTorch's errors again: running out of memory,
// after which a step is retried in smaller parts, and all others.
#include "stoker/models/torchscript_model.h"

#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/api/module.h>

#include <string>

#include "stoker/bridge/torch_error.h"
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

}  // namespace
}  // namespace stoker
