// read_exported_file: a .pt2 file is a zip of uncompressed members below one folder, which has the file's original
// name. For compiled graphs LibTorch opens it again.
#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "stoker/base/error.h"
#include "stoker/base/json_depth.h"
#include "stoker/base/memory_limit.h"
#include "stoker/bridge/tensor.h"
#include "stoker/formats/arrays/safetensors.h"
#include "stoker/formats/pt2/pt2_check.h"
#include "stoker/formats/pt2/pt2_graph.h"
#include "stoker/io/zip.h"
#include "stoker/models/exported_model.h"
#include "stoker/models/imported_model.h"

namespace stoker {
namespace {

using Json = nlohmann::json;

constexpr int kVersion = 1;
constexpr int kSeveralInputs = 2;  // the version of a model that takes fields by name

Buffer member(const ZipFile& zip, const std::string& path, std::string_view name) {
    const ZipEntry* found = zip.find(fmt::format("{}extra/{}", pt2_folder(zip), name));
    if (found == nullptr) {
        throw DataError({.path = path}, {.where = "model.export",
                                         .expected = "a file that export_training wrote (python/stoker/export.py)",
                                         .got = fmt::format("one without {}", name)});
    }
    return zip.inflate(*found);
}

std::vector<NamedTensor> tensors_of(const Buffer& weights, const std::string& path) {
    std::vector<NamedTensor> tensors;
    for (const SafetensorsEntry& entry : parse_safetensors(weights.bytes())) {
        const auto dtype = safetensors_dtype(entry.dtype);
        if (!dtype) {
            throw DataError({.path = path, .key = entry.name},
                            {.where = "model.export", .expected = "a supported tensor type", .got = entry.dtype});
        }
        auto* bytes = const_cast<std::byte*>(entry.bytes.data());  // copy_of only reads
        tensors.push_back({entry.name, copy_of({.data = bytes, .dtype = *dtype, .shape = entry.shape})});
    }
    return tensors;
}

at::Tensor find_tensor(const std::vector<NamedTensor>& tensors, const std::string& name, const std::string& path) {
    const auto found = std::ranges::find(tensors, name, &NamedTensor::name);
    if (found == tensors.end()) {
        throw DataError({.path = path, .key = name},
                        {.where = "model.export", .expected = "initial values in weights.safetensors", .got = "none"});
    }
    return found->tensor;
}

// The type and the shape of one sample.
ExportedInput described(const Json& json, const std::string& path) {
    const auto name = json.at("dtype").get<std::string>();
    const auto type = safetensors_dtype(name);
    if (!type) {
        throw DataError({.path = path},
                        {.where = "model.export", .expected = "a supported type of inputs", .got = in_quotes(name)});
    }
    return {.shape = json.at("shape").get<Shape>(), .type = scalar_type(*type)};
}

// The inputs: version 1 has "input", a shape; version 2 has "inputs", a list of names, types and shapes.
std::vector<ExportedInput> inputs_of(const Json& json, const std::string& path) {
    if (json.at("version").get<int>() == kVersion) {
        return {{.shape = json.at("input").get<Shape>()}};
    }
    std::vector<ExportedInput> inputs;
    for (const Json& input : json.at("inputs")) {
        inputs.push_back(described(input, path));
        inputs.back().name = input.at("name").get<std::string>();
    }
    if (inputs.empty()) {
        throw DataError({.path = path}, {.where = "model.export", .expected = "at least one input", .got = "none"});
    }
    return inputs;
}

bool trusts_native_code() {
    const char* trust = std::getenv("STOKER_TRUST_NATIVE");
    return trust != nullptr && std::string_view(trust) == "1";
}

// The file's own word that its graphs are compiled is believed only if it is a reason to refuse.
void require_trusted(const ZipFile& zip, const std::string& path, bool compiled) {
    if (trusts_native_code()) {
        return;
    }
    if (compiled) {
        throw Unsupported({.where = "model.export",
                           .expected = "a file without compiled graphs",
                           .got = path + ", which contains native code",
                           .hint = "set STOKER_TRUST_NATIVE=1 if you trust its author"});
    }
    require_plain_graphs(zip);
}

}  // namespace

ExportedFile read_exported_file(const std::string& path) {
    open_imported_model("model.export", path);  // for its error, which names the key
    ExportedFile file;
    file.zip = std::make_unique<ZipFile>(path);
    const ZipFile& zip = *file.zip;
    const auto of_file = [&](const auto& call) {
        return with_place({.path = path}, [&] { return with_memory_place(path, call); });
    };
    const Buffer weights = member(zip, path, "weights.safetensors");
    const std::vector<NamedTensor> tensors = tensors_of(weights, path);
    try {
        const Json json = of_file([&] { return read_pt2_json(zip, "extra/stoker.json"); });
        if (const int version = json.at("version").get<int>(); version != kVersion && version != kSeveralInputs) {
            throw Unsupported(
                {.where = path,
                 .expected = fmt::format("version {} or {} of an exported model", kVersion, kSeveralInputs),
                 .got = json_text(json.at("version"))});
        }
        file.compiled = json.at("compiled").get<bool>();
        file.device = json.at("device").get<std::string>();
        if (file.device != "cpu" && file.device != "cuda") {
            throw DataError({.path = path}, {.where = "model.export",
                                             .expected = "graphs for cpu or cuda",
                                             .got = fmt::format("\"{}\"", file.device),
                                             .hint = "export the model with an example on one of these devices"});
        }
        file.inputs = inputs_of(json, path);
        if (json.contains("target")) {
            file.target = described(json.at("target"), path);
        }
        file.smallest_batch = json.at("smallest_batch").get<std::int64_t>();
        for (const Json& parameter : json.at("parameters")) {
            const auto name = parameter.at("name").get<std::string>();
            file.parameters.push_back({name, find_tensor(tensors, name, path)});
            file.trained.push_back(parameter.at("trained").get<bool>());
        }
        for (const Json& name : json.at("buffers")) {
            file.buffers.push_back({name.get<std::string>(), find_tensor(tensors, name.get<std::string>(), path)});
        }
    } catch (const Json::exception& error) {
        throw DataError(
            {.path = path},
            {.where = "model.export", .expected = "a stoker.json that export_training wrote", .got = error.what()});
    }
    of_file([&] { require_trusted(zip, path, file.compiled); });
    return file;
}

}  // namespace stoker
