// What may lead LibTorch to native code, or to memory that is not the tensor's, is refused.
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

TEST(Pt2Check, NothingElseTakesTheIndicesOfAMaxPooling) {
    const auto found = [](const std::string& next) {
        const std::string nodes =
            pt2_node("max_pool2d_with_indices.default", {{"self", "x"}}, {"values", "places"}) + next;
        return refusal_of_graph(replaced(pt2_graph(), R"("nodes": [)", R"("nodes": [)" + nodes));
    };
    const std::string alias = pt2_node("alias.default", {{"self", "places"}}, {"same"});
    EXPECT_EQ(found(alias), "");
    EXPECT_EQ(found(pt2_node("max_unpool2d.default", {{"self", "values"}, {"indices", "places"}}, {"z"})), "");
    EXPECT_EQ(found(pt2_node("neg.default", {{"self", "values"}}, {"z"})), "");
    EXPECT_THAT(found(pt2_node("fill_.Scalar", {{"self", "places"}}, {"z"})), HasSubstr("fill_ with the indices"));
    EXPECT_THAT(found(alias + pt2_node("view.default", {{"self", "same"}}, {"z"})), HasSubstr("with the indices"));
}

// The check and the reader of a graph must see the same arguments.
TEST(Pt2Check, RefusesWhatCanBeReadInTwoWays) {
    const auto with = [](const std::string& argument) {
        return refusal_of_graph(pt2_graph("torch.ops.aten.add.Tensor", argument));
    };
    EXPECT_EQ(with(R"({"as_int": 1})"), "");
    EXPECT_THAT(with(R"({"as_tensor": {"name": "w"}, "as_int": 1})"), HasSubstr("an object with one key"));
    EXPECT_THAT(with("{}"), HasSubstr("an object with one key"));
    EXPECT_THAT(with("3"), HasSubstr("an object with one key"));
    EXPECT_THAT(refusal_of_graph(replaced(pt2_graph(), R"("other")", R"("self")")), HasSubstr("each argument once"));
    EXPECT_THAT(refusal_of_graph(replaced(pt2_graph(), R"("outputs": [{"as_tensor": {"name": "y"}}], "metadata")",
                                          R"("outputs": [{"as_none": true, "as_tensor": {"name": "y"}}], "metadata")")),
                HasSubstr("an object with one key"));
}

TEST(Pt2Check, RefusesFilesWithoutAGraph) {
    EXPECT_THAT(refusal_of_graph("{}"), HasSubstr("a graph \"train\" of torch.export"));
    EXPECT_THAT(refusal_of_graph("[1, 2"), HasSubstr("JSON"));
    EXPECT_THAT(refusal({{"net/models/train.json", pt2_graph(), true}}), HasSubstr("compression"));
    EXPECT_THAT(refusal_of(zip({{"models.json", "{}"}})), HasSubstr("below a folder"));
    EXPECT_THAT(refusal_of(zip({{"net/models/eval.json", pt2_graph()}})), HasSubstr("models/train.json"));
    EXPECT_EQ(refusal({{"net/data/aotinductor/train/x.so", "x"}}), "") << "nothing opens it";
}

// Parsed JSON takes far more memory than its text.
TEST(Pt2Check, RefusesTextsBeyondTheMemoryLimit) {
    const std::string spaces(std::size_t{2} << 20, ' ');
    const std::string file = zip(pt2_members({{"net/models/eval.json", pt2_graph() + spaces}}));
    EXPECT_EQ(refusal_of(file), "");
    const MemoryRoom room(60 * kMiB);
    EXPECT_THAT(refusal_of(file),
                AllOf(HasSubstr("models/eval.json]"), HasSubstr("80.0 MiB"), HasSubstr("data.memory allows")));
}

// The reader would recurse.
TEST(Pt2Check, RefusesDeepTexts) {
    for (const std::size_t levels : {std::size_t{100}, std::size_t{200'000}}) {
        const std::string deep = std::string(levels, '[') + std::string(levels, ']');
        EXPECT_THAT(refusal_of_graph(deep), HasSubstr("JSON of at most 64 levels"));
    }
}

}  // namespace
}  // namespace stoker
