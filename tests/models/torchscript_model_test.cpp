// What TorchScript's interpreter tells as a text is an error of LibTorch's again: too little memory, for which a step
// tries smaller batches, and everything else.
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

// What running a script says whose forward pass is `body`, and whether it is of memory.
std::pair<std::string, bool> trouble_of(const std::string& body) {
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
    const auto [full, of_memory] = trouble_of("x + torch.zeros([1125899906842624]).sum()");
    EXPECT_TRUE(of_memory) << full;
    EXPECT_THAT(full, HasSubstr("DefaultCPUAllocator"));
    EXPECT_THAT(full, Not(HasSubstr("Traceback")));
    const auto [shapes, also_of_memory] = trouble_of("torch.mm(x, self.weight)");
    EXPECT_FALSE(also_of_memory) << shapes;
    EXPECT_THAT(shapes, HasSubstr("cannot be multiplied"));
}

}  // namespace
}  // namespace stoker
