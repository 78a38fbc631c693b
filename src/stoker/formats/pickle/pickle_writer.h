// Writes pickles (protocol 4) of the few kinds of values that packed data sets hold. `pickle.loads` of any Python with
// NumPy reads them, and so does pickle.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "stoker/base/tensor_view.h"

namespace stoker {

// Each call appends a value. Between begin_dict and end_dict keys and values alternate; between begin_list and end_list
// are the entries. A pickle holds one value; `finish` ends it.
class PickleWriter {
  public:
    explicit PickleWriter(std::vector<std::byte>& out);  // cleared first

    void integer(std::int64_t value);
    void real(double value);
    void text(std::string_view utf8);
    void bytes(std::span<const std::byte> value);
    // A NumPy array in C order. Throws InvalidArgument for bfloat16, which NumPy does not have.
    void array(DType dtype, const Shape& shape, std::span<const std::byte> elements);

    void begin_dict();
    void end_dict();
    void begin_list();
    void end_list();
    void finish();

  private:
    template <typename... Opcode>
    void op(Opcode... opcodes) {
        (out_.push_back(static_cast<std::byte>(opcodes)), ...);
    }
    void put(std::span<const std::byte> bytes) { out_.insert(out_.end(), bytes.begin(), bytes.end()); }
    void number(std::uint64_t value, int size);
    void global(std::string_view module, std::string_view name);

    std::vector<std::byte>& out_;
};

}  // namespace stoker
