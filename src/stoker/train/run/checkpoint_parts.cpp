// Rank 0 makes the files with their headers and full sizes; every rank writes its elements where they belong, and
// reports the hash of its bytes; rank 0 writes state.json last.
#include "stoker/train/run/checkpoint_parts.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <vector>

#include "stoker/base/file.h"
#include "stoker/base/hash.h"
#include "stoker/base/json_depth.h"
#include "stoker/bridge/tensor.h"
#include "stoker/formats/arrays/safetensors.h"
#include "stoker/train/run/checkpoint_files.h"

namespace stoker {

using Json = nlohmann::ordered_json;

namespace {

namespace fs = std::filesystem;

struct PartFile {
    const char* name;
    const StateParts* parts;
    SafetensorsLayout layout;
};

std::vector<PartFile> lay_out(const CheckpointParts& parts) {
    std::vector<PartFile> files;
    const auto add = [&](const char* name, const StateParts& part, const ModelMetadata& metadata) {
        std::vector<NamedView> views;
        for (const auto& [tensor_name, tensor] : part.tensors) {
            const TensorView view{.dtype = dtype_of_scalar(tensor.scalar_type()), .shape = tensor.sizes().vec()};
            views.push_back({tensor_name, view});
        }
        files.push_back({name, &part, lay_out_safetensors(views, metadata)});
    };
    add(kModelFile, parts.model, parts.metadata);
    add(kOptimizerFile, parts.optimizer, {});
    if (!parts.ema.tensors.empty()) {
        add(kEmaFile, parts.ema, parts.metadata);
    }
    return files;
}

void write_at(const Descriptor& file, const fs::path& path, std::span<const std::byte> bytes, std::uint64_t offset) {
    if (write_bytes(file.get(), bytes, offset) < bytes.size()) {
        throw errno_error(path.string(), "room to write", errno);
    }
}

void make_file(const fs::path& folder, const PartFile& part) {
    const fs::path path = folder / part.name;
    const Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_CREAT | O_EXCL, 0666));
    if (file.get() < 0 || ::ftruncate(file.get(), static_cast<off_t>(part.layout.size)) != 0) {
        throw errno_error(path.string(), "a new file with room to write", errno);
    }
    write_at(file, path, as_bytes(part.layout.header), 0);
}

// The header of each file, and its number, which is the same for all hosts that share its file system. As JSON.
std::string make_files(const fs::path& folder, const std::vector<PartFile>& files) {
    Json made = Json::array();
    for (const PartFile& file : files) {
        make_file(folder, file);
        made.push_back({hash_text(file.layout.header), File(folder / file.name).info().inode});
    }
    return json_text(made);
}

// Rank 0's files, for writing. Empty where this rank does not find them, may not write them, or would write another
// header: then its elements would lie elsewhere.
std::vector<Descriptor> open_made(const fs::path& folder, const std::vector<PartFile>& files, const Json& made) {
    std::vector<Descriptor> opened;
    for (std::size_t i = 0; i < files.size(); ++i) {
        Descriptor file(::open((folder / files[i].name).c_str(), O_WRONLY | O_CLOEXEC));
        struct stat found = {};
        const bool found_it = file.get() >= 0 && ::fstat(file.get(), &found) == 0;
        if (!found_it || Json::array({hash_text(files[i].layout.header), found.st_ino}) != made.at(i)) {
            return {};
        }
        opened.push_back(std::move(file));
    }
    return opened;
}

struct Extent {
    std::uint64_t begin;
    const at::Tensor* values;
};

// This rank's elements with their places in the file, in ascending order.
std::vector<Extent> extents_of(const PartFile& file) {
    std::vector<Extent> extents;
    for (const RowMajorPiece& piece : file.parts->own) {
        const auto offset = static_cast<std::uint64_t>(piece.begin) * piece.values.element_size();
        extents.push_back({file.layout.begins[piece.parameter] + offset, &piece.values});
    }
    std::ranges::sort(extents, {}, &Extent::begin);
    return extents;
}

WrittenRanges write_own(const Descriptor& file, const fs::path& path, const PartFile& part, bool first) {
    StreamHash hash;
    WrittenRanges written;
    const auto add = [&](std::uint64_t begin, std::span<const std::byte> bytes) {
        if (bytes.empty()) {
            return;
        }
        hash.update(bytes);
        if (!written.ranges.empty() && written.ranges.back().second == begin) {
            written.ranges.back().second += bytes.size();
        } else {
            written.ranges.emplace_back(begin, begin + bytes.size());
        }
    };
    if (first) {  // it wrote the header
        add(0, as_bytes(part.layout.header));
    }
    for (const Extent& extent : extents_of(part)) {
        const at::Tensor values = extent.values->detach().to(at::kCPU).contiguous();
        const std::span bytes(static_cast<const std::byte*>(values.const_data_ptr()), values.nbytes());
        write_at(file, path, bytes, extent.begin);
        add(extent.begin, bytes);
    }
    sync_file(file.get(), path);
    written.hash = hash.value();
    return written;
}

}  // namespace

bool write_parts(const Group& group, const fs::path& folder, const CheckpointParts& parts, const std::string& state) {
    const std::vector<PartFile> files = lay_out(parts);
    const std::string making = group.first() ? make_files(folder, files) : "";
    group.barrier();  // the file system may take longer than a step's time-out
    const Json made = parse_own_json<Json>(group.broadcast(making));
    const fs::path shared = group.broadcast(folder.string());
    const std::vector<Descriptor> opened = open_made(shared, files, made);
    double elsewhere = opened.empty() ? 1 : 0;
    group.all_reduce(std::span(&elsewhere, 1));
    if (elsewhere > 0) {
        for (std::size_t i = 0; group.first() && i < files.size(); ++i) {
            std::error_code stays;  // the file of one writer replaces it
            fs::remove(folder / files[i].name, stays);
        }
        return false;
    }
    Json own = Json::object();
    for (std::size_t i = 0; i < files.size(); ++i) {
        own[files[i].name] = to_json(write_own(opened[i], shared / files[i].name, files[i], group.first()));
    }
    group.barrier();  // the others may write for longer than a step's time-out
    const std::vector<std::string> of_ranks = group.all_gather(json_text(own));
    if (group.first()) {
        Json written = Json::object();
        for (const std::string& text : of_ranks) {
            const Json of_rank = parse_own_json<Json>(text);
            for (const auto& [name, ranges] : of_rank.items()) {
                written[name].push_back(ranges);
            }
        }
        write_state(folder, state, written);
    }
    return true;
}

}  // namespace stoker
