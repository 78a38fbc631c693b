// Makes .pt2 files as python/stoker/export.py writes them, with graphs of one node each.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "formats/arrays/npz_support.h"

namespace stoker::testing {

// A graph that calls `target` on its input `x` and on the tensor `w` of the file, of 2 x 3 floats.
inline std::string pt2_graph(const std::string& target = "torch.ops.aten.add.Tensor",
                             const std::string& argument = R"({"as_tensor": {"name": "w"}})") {
    return R"({"graph_module": {"graph": {"inputs": [{"as_tensor": {"name": "w"}}, {"as_tensor": {"name": "x"}}],)"
           R"("outputs": [{"as_tensor": {"name": "y"}}], "nodes": [{"target": ")" +
           target +
           R"(", "inputs": [{"name": "self", "arg": {"as_tensor": {"name": "x"}}}, {"name": "other", "arg": )" +
           argument +
           R"(}], "outputs": [{"as_tensor": {"name": "y"}}], "metadata": {}}], "tensor_values": {"w": {"dtype": 7,)"
           R"("sizes": [{"as_int": 2}, {"as_int": 3}], "strides": [{"as_int": 3}, {"as_int": 1}],)"
           R"("storage_offset": {"as_int": 0}, "layout": 7, "device": {"type": "cpu"}}}}, "signature": {"input_specs": [)"
           R"({"buffer": {"arg": {"name": "w"}, "buffer_name": "c", "persistent": true}},)"
           R"({"user_input": {"arg": {"as_tensor": {"name": "x"}}}}],)"
           R"("output_specs": [{"user_output": {"arg": {"as_tensor": {"name": "y"}}}}]},)"
           R"("module_call_graph": [{"fqn": "", "signature": {"in_spec": "", "out_spec": ""}}]}})";
}

inline std::string pt2_config(const std::string& pickle = "false", const std::string& member = "weight_0") {
    return R"({"config": {"c": {"path_name": ")" + member + R"(", "is_param": false, "use_pickle": )" + pickle +
           R"(, "tensor_meta": {"dtype": 7, "sizes": [{"as_int": 2}, {"as_int": 3}], "strides": [{"as_int": 3},)"
           R"({"as_int": 1}], "storage_offset": {"as_int": 0}, "layout": 7, "device": {"type": "cpu"}}}}})";
}

// The members of a file that is accepted; `changed` replaces members of the same names and adds others.
inline std::vector<Member> pt2_members(const std::vector<Member>& changed = {}) {
    std::vector<Member> members = {{"net/data/weights/weight_0", std::string(24, '\0')},
                                   {"net/data/weights/train_weights_config.json", pt2_config()},
                                   {"net/data/constants/train_constants_config.json", R"({"config": {}})"},
                                   {"net/models/train.json", pt2_graph()},
                                   {"net/data/sample_inputs/train.pt", ""},
                                   {"net/data/weights/eval_weights_config.json", pt2_config()},
                                   {"net/data/constants/eval_constants_config.json", R"({"config": {}})"},
                                   {"net/models/eval.json", pt2_graph("torch.ops.aten.mul_.Tensor")},
                                   {"net/extra/stoker.json", "{}"},
                                   {"net/.data/version", "3\n"}};
    for (const Member& member : changed) {
        const auto same = std::ranges::find(members, member.name, &Member::name);
        same == members.end() ? members.push_back(member) : void(*same = member);
    }
    return members;
}

}  // namespace stoker::testing
