// Only the CUDA allocator throws c10::OutOfMemoryError. c10's CPU allocator, CUDA's libraries and TorchScript's
// interpreter throw general errors, which are recognised by their text.
#include "stoker/bridge/torch_error.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <new>
#include <optional>
#include <string>

#include "stoker/base/byte_text.h"
#include "stoker/base/error.h"
#include "stoker/base/memory_limit.h"
#include "stoker/base/parse_number.h"
#include "stoker/bridge/device_lost.h"
#include "stoker/bridge/out_of_memory.h"

namespace stoker {
namespace {

std::string text_of(const std::exception& error) {
    const auto* of_torch = dynamic_cast<const c10::Error*>(&error);
    return of_torch != nullptr ? of_torch->what_without_backtrace() : error.what();
}

// oneDNN's exceptions do not say why it failed.
bool is_primitive_failure(std::string_view text) {
    return text.find("could not create a primitive") != std::string_view::npos ||
           text.find("could not execute a primitive") != std::string_view::npos;
}

bool memory_is_low() {
    constexpr std::uint64_t kLeast = std::uint64_t{256} << 20;
    constexpr std::uint64_t kMost = std::uint64_t{1} << 30;
    const MemoryLimit limit = memory_limit();
    return limit.available < std::clamp(limit.total / 8, kLeast, kMost);
}

// The size in "DefaultCPUAllocator: can't allocate memory: you tried to allocate 123 bytes".
std::optional<std::int64_t> requested_bytes(std::string_view text) {
    constexpr std::string_view kBefore = "tried to allocate ";
    const std::size_t at = text.find(kBefore);
    if (at == std::string_view::npos || text.find("DefaultCPUAllocator") == std::string_view::npos) {
        return std::nullopt;
    }
    text = text.substr(at + kBefore.size());
    return parse_number<std::int64_t>(text.substr(0, text.find(' ')));
}

}  // namespace

std::string describe_shortage(const std::exception& error) {
    const std::string line = first_line_of(error);
    if (const auto bytes = requested_bytes(line)) {
        return fmt::format("{} asked for at once; {}", byte_text(*bytes), memory_text());
    }
    const bool host = dynamic_cast<const std::bad_alloc*>(&error) != nullptr || is_primitive_failure(line);
    return host ? "less than is needed; " + memory_text() : line;
}

bool is_out_of_memory(const std::exception& error) {
    if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr ||
        dynamic_cast<const std::bad_alloc*>(&error) != nullptr) {
        return true;
    }
    if (dynamic_cast<const CudaError*>(&error) != nullptr) {  // of a launch that had to load its kernel
        const std::string_view text = error.what();
        return text.find("a launch over") != text.npos && text.find("got out of memory") != text.npos;
    }
    if (dynamic_cast<const Error*>(&error) != nullptr) {
        return false;  // our own error, whose text may quote such an error
    }
    constexpr std::string_view kTexts[] = {"DefaultCPUAllocator: ", "out of memory", "_STATUS_ALLOC_FAILED"};
    const std::string text = text_of(error);
    return std::ranges::any_of(kTexts, [&](auto part) { return text.find(part) != std::string::npos; });
}

bool is_device_lost(const std::exception& error) {
    // Codes of cudaError: ECC, NVLink, contained; an illegal address, a timeout, an assertion; errors of the hardware's
    // stack, instructions, alignment, address spaces and program counter; a failed launch, a leak of tensor memory;
    // MPS; an external device; unknown, as when the device has gone from the bus.
    constexpr std::array kFinal = {214, 220, 226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721, 810, 911, 999};
    const auto* of_device = dynamic_cast<const c10::AcceleratorError*>(&error);
    return dynamic_cast<const DeviceLost*>(&error) != nullptr ||
           (of_device != nullptr && std::ranges::find(kFinal, of_device->get_error_code()) != kFinal.end());
}

void rethrow_as_stoker(const std::exception& error) {
    if (dynamic_cast<const c10::Error*>(&error) != nullptr && is_device_lost(error)) {
        throw DeviceLost(first_line_of(error));
    }
    // Not in is_out_of_memory: a step that is retried after oneDNN ran out of memory may crash in it.
    if (is_out_of_memory(error) || (is_primitive_failure(text_of(error)) && memory_is_low())) {
        throw OutOfMemory({.where = "memory",
                           .expected = "room for the model and its batch",
                           .got = describe_shortage(error),
                           .hint = "use a smaller data.batch_size, data.workers, data.cache_bytes or model"});
    }
    if (dynamic_cast<const c10::Error*>(&error) == nullptr) {
        throw;
    }
    throw Error({.where = "LibTorch", .expected = "the operation to succeed", .got = first_line_of(error)});
}

std::string first_line_of(const std::exception& error) {
    const std::string text = text_of(error);
    return text.substr(0, text.find('\n'));
}

std::string first_sentence(std::string_view what) {
    what = what.substr(0, std::min(what.find('\n'), what.find(". ")));
    std::string text(what);
    std::ranges::replace_if(
        text, [](char c) { return c < ' ' || c > '~'; }, '?');
    return text;
}

}  // namespace stoker
