// What may lead LibTorch to native code, or to memory that is not the tensor's, is refused before LibTorch sees it.
#include "stoker/formats/pt2/pt2_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "formats/pt2/pt2_support.h"
#include "stoker/base/error.h"
#include "stoker/formats/pt2/pt2_operators.h"
#include "support/memory_room.h"

namespace stoker {
namespace {

using namespace testing;
using ::testing::AllOf;
using ::testing::HasSubstr;

// The message, or nothing where the file is accepted.
std::string refusal_of(const std::string& file) {
    try {
        const ZipFile zip(as_bytes(file));
        require_plain_graphs(zip);
        return "";
    } catch (const Error& error) {
        return error.what();
    }
}

std::string refusal(const std::vector<Member>& changed) {
    return refusal_of(zip(pt2_members(changed)));
}

std::string refusal_of_graph(const std::string& graph) {
    return refusal({{"net/models/train.json", graph}});
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
}

TEST(Pt2Check, AcceptsPlainGraphs) {
    EXPECT_EQ(refusal({}), "");
    EXPECT_EQ(refusal_of_graph(pt2_graph("torch.ops.aten.native_batch_norm_backward.default")), "");
    EXPECT_EQ(refusal_of_graph(pt2_graph("_operator.mul", R"({"as_int": 3})")), "");
}

TEST(Pt2Check, RefusesWhatIsNotAKnownOperator) {
    for (const char* target : {"torch.ops.higher_order.executorch_call_delegate",
                               "torch.ops.higher_order.call_torchbind",
                               "torch.ops.higher_order.cond",
                               "torch.ops.higher_order.run_const_graph",
                               "torch.ops.higher_order.wrap_with_set_grad_enabled",
                               "torch.ops.higher_order.auto_functionalized",
                               "torch.ops.mine.add.Tensor",
                               "torch.ops.aten.from_file.default",
                               "torch.ops.aten.set_.source_Tensor",
                               "torch.ops.aten.resize_.default",
                               "torch.ops.aten._reshape_alias.default",
                               "torch.ops.aten.add",
                               "torch.ops.aten..add",
                               "torch.ops.aten.add.Tensor.x",
                               "torch.ops.aten",
                               "torch.ops.aten.",
                               "prim.ListPack",
                               "torch._higher_order_ops.auto_functionalize.auto_functionalized",
                               "delegate",
                               ""}) {
        EXPECT_THAT(refusal_of_graph(pt2_graph(target)),
                    AllOf(HasSubstr("calls \"" + std::string(target)), HasSubstr("STOKER_TRUST_NATIVE=1")));
    }
    EXPECT_THAT(refusal_of_graph(pt2_graph("torch.ops.aten.add.Tensor\\u0000")), HasSubstr("calls"));
    EXPECT_THAT(refusal({{"net/models/eval.json", pt2_graph("torch.ops.higher_order.cond")}}), HasSubstr("\"eval\""));
}

TEST(Pt2Check, RefusesSubgraphsAndObjects) {
    for (const char* kind : {"as_graph", "as_custom_obj", "as_operator", "as_string_to_argument", "as_anything"}) {
        EXPECT_THAT(refusal_of_graph(pt2_graph("torch.ops.aten.add.Tensor", "{\"" + std::string(kind) + "\": {}}")),
                    HasSubstr(kind));
    }
    EXPECT_NE(refusal_of_graph(pt2_graph("torch.ops.aten.add.Tensor", R"({"as_int": 1, "as_graph": {}})")), "");
    EXPECT_THAT(refusal_of_graph(replaced(pt2_graph(), R"({"user_input")", R"({"custom_obj")")),
                HasSubstr("custom_obj"));
}

std::string pt2_node(const std::string& target, const std::vector<std::pair<std::string, std::string>>& inputs,
                     const std::vector<std::string>& outputs) {
    std::string text = R"({"target": "torch.ops.aten.)" + target + R"(", "inputs": [)";
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        text += (i > 0 ? ", " : "") + (R"({"name": ")" + inputs[i].first + R"(", "arg": {"as_tensor": {"name": ")") +
                inputs[i].second + R"("}}})";
    }
    text += R"(], "outputs": [)";
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        text += (i > 0 ? ", " : "") + (R"({"as_tensor": {"name": ")" + outputs[i] + R"("}})");
    }
    return text + R"(], "metadata": {}}, )";
}

// Its kernel adds to the places that the indices name.
TEST(Pt2Check, TheGradientOfMaxPoolingTakesItsOwnIndices) {
    const std::string forward = "max_pool2d_with_indices.default";
    const std::string backward = "max_pool2d_with_indices_backward.default";
    const auto found = [&](const std::string& self, const std::string& indices, const std::string& pool) {
        const std::string nodes =
            pt2_node(pool, {{"self", "x"}}, {"values", "places"}) + pt2_node("alias.default", {{"self", "x"}}, {"v"}) +
            pt2_node(backward, {{"grad_output", "values"}, {"self", self}, {"indices", indices}}, {"g"});
        return refusal_of_graph(replaced(pt2_graph(), R"("nodes": [)", R"("nodes": [)" + nodes));
    };
    EXPECT_EQ(found("x", "places", forward), "");
    EXPECT_EQ(found("v", "places", forward), "") << "an alias of x";
    EXPECT_THAT(found("x", "w", forward), HasSubstr("has other indices than it returned"));
    EXPECT_THAT(found("x", "values", forward), HasSubstr("has other indices than it returned"));
    EXPECT_THAT(found("w", "places", forward), HasSubstr("has other indices than it returned"));
    EXPECT_THAT(found("x", "places", "max_pool3d_with_indices.default"), HasSubstr("has other indices"));
    EXPECT_THAT(found("x", "nothing", forward), HasSubstr("has other indices"));
}

TEST(Pt2Check, RefusesMembersOfOtherKinds) {
    for (const char* name :
         {"net/data/aotinductor/train/x.so", "net/data/aotinductor/train/x.wrapper.so", "net/models/other.json",
          "net/models/train.json.so", "net/data/weights/x.so", "net/data/weights/weight_", "net/data/weights/weight_1x",
          "net/data/constants/custom_obj_0", "net/data/constants/../x", "net/./models/train.json", "net//models/x.json",
          "net/extra/x", "net/constants.pkl", "net/code/x.py", "net/data/executorch/x.pte"}) {
        EXPECT_THAT(refusal({{name, "x"}}), HasSubstr("got a member")) << name;
    }
    EXPECT_THAT(refusal({{"net/data/sample_inputs/train.pt", "x"}}), HasSubstr("sample_inputs"));
}

TEST(Pt2Check, RefusesPickles) {
    EXPECT_THAT(refusal({{"net/data/weights/train_weights_config.json", pt2_config("true")}}), HasSubstr("pickle"));
    EXPECT_THAT(refusal({{"net/data/weights/eval_weights_config.json", pt2_config("false", "../x")}}),
                HasSubstr("pickle"));
}

TEST(Pt2Check, RefusesWhatAnotherReaderReadsOtherwise) {
    EXPECT_THAT(refusal({{"net/models/TRAIN.json", pt2_graph("delegate")}}), HasSubstr("a member"));
    EXPECT_THAT(refusal({{"NET/models/train.json", pt2_graph("delegate")}}), HasSubstr("below \"net/\""));
    EXPECT_THAT(refusal({{"./net/models/train.json", pt2_graph("delegate")}}), HasSubstr("below \"net/\""));
    EXPECT_THAT(refusal({{"models/train.json", pt2_graph("delegate")}}), HasSubstr("below \"net/\""));
    std::vector<Member> twice = pt2_members();
    twice.push_back({"net/models/train.json", pt2_graph("delegate")});
    EXPECT_THAT(refusal_of(zip(twice)), HasSubstr("twice"));
    EXPECT_THAT(refusal_of_graph(replaced(pt2_graph(), R"("target": )", R"("target": "delegate", "target": )")),
                HasSubstr("\"target\" twice"));
    EXPECT_THAT(refusal({{"net/models/train.json", pt2_graph(), true}}), HasSubstr("compression"));
    EXPECT_THAT(refusal({{"net/extra/", ""}}), HasSubstr("an entry of a folder"));
    // A second directory in the comment of the first, which LibTorch's reader takes although it has bytes after it.
    std::string file = zip(pt2_members());
    std::string other = zip(pt2_members({{"net/models/train.json", pt2_graph("delegate")}}));
    file.replace(file.size() - 2, 2, little_endian(other.size() + 1, 2));
    EXPECT_THAT(refusal_of(file + other + "x"), HasSubstr("ends with its directory"));
}

// Parsed JSON takes far more memory than its text.
TEST(Pt2Check, RefusesTextsBeyondTheMemoryLimit) {
    const std::string spaces(std::size_t{2} << 20, ' ');
    const std::string file = zip(pt2_members({{"net/models/eval.json", pt2_graph() + spaces}}));
    EXPECT_EQ(refusal_of(file), "");
    const MemoryRoom room(60 * kMiB);
    EXPECT_THAT(refusal_of(file),
                AllOf(HasSubstr("[net/models/eval.json]"), HasSubstr("80.0 MiB"), HasSubstr("data.memory allows")));
}

// LibTorch's reader and ours would recurse.
TEST(Pt2Check, RefusesDeepTexts) {
    for (const std::size_t levels : {std::size_t{100}, std::size_t{200'000}}) {
        const std::string deep = std::string(levels, '[') + std::string(levels, ']');
        for (const char* member : {"net/models/train.json", "net/data/weights/train_weights_config.json"}) {
            EXPECT_THAT(refusal({{member, deep}}), HasSubstr("JSON of at most 64 levels")) << member;
        }
    }
}

// nativert takes the memory of these tensors as large as their sizes say.
TEST(Pt2Check, RefusesTensorsThatAreNotStoredInFull) {
    EXPECT_THAT(refusal({{"net/data/weights/weight_0", std::string(20, '\0')}}), HasSubstr("all elements of \"c\""));
    for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
             {R"([{"as_int": 2}, {"as_int": 3}])", R"([{"as_int": 2000}, {"as_int": 3}])"},
             {R"([{"as_int": 3}, {"as_int": 1}])", R"([{"as_int": 4}, {"as_int": 1}])"},
             {R"([{"as_int": 3}, {"as_int": 1}])", R"([{"as_int": 18446744073709551615}, {"as_int": 1}])"},
             {R"([{"as_int": 3}, {"as_int": 1}])", R"([{"as_int": -3}, {"as_int": 1}])"},
             {R"([{"as_int": 3}, {"as_int": 1}])", R"([{"as_int": 1}])"},
             {R"({"as_int": 0})", R"({"as_int": 1})"},
             {R"("dtype": 7)", R"("dtype": 8)"},
             {R"("dtype": 7)", R"("dtype": 99)"},
             {R"("layout": 7)", R"("layout": 1)"},
             {R"([{"as_int": 2}, )", R"([{"as_expr": "s0"}, )"},
             {R"("buffer_name": "c")", R"("buffer_name": "d")"}}) {
        EXPECT_NE(refusal_of_graph(replaced(pt2_graph(), from, to)), "") << to;
    }
    EXPECT_EQ(refusal_of_graph(replaced(pt2_graph(), R"([{"as_int": 2}, )", R"([{"as_int": 0}, )")), "");
    EXPECT_EQ(refusal_of_graph(replaced(pt2_graph(), R"("dtype": 7)", R"("dtype": 13)")), "");
}

TEST(Pt2Check, RefusesCountsThatDiffer) {
    EXPECT_NE(refusal_of_graph(replaced(pt2_graph(), R"({"as_tensor": {"name": "w"}}, )", "")), "");
    EXPECT_NE(
        refusal_of_graph(replaced(pt2_graph(), R"("outputs": [{"as_tensor": {"name": "y"}}])", R"("outputs": [])")),
        "");
    EXPECT_NE(refusal_of_graph(replaced(pt2_graph(), R"([{"fqn": "", )", R"([], "x": [{"fqn": "", )")), "");
    EXPECT_NE(refusal_of_graph("{}"), "");
    EXPECT_NE(refusal_of_graph("[1, 2"), "");
}

}  // namespace
}  // namespace stoker
