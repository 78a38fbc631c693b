// Shared by the files of the extension module stoker._stoker. Each bind_<folder>.cpp binds one folder of src/stoker.
#pragma once

#include <nanobind/nanobind.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "stoker/formats/dataset.h"
#include "stoker/recipe/schema.h"

namespace stoker::python {

namespace nb = nanobind;

// An open data set, and the field names that it was opened with.
struct OpenData {
    std::shared_ptr<const Dataset> dataset;
    FieldNames names = {};
    std::vector<std::shared_ptr<const Dataset>> parts = {};  // of several data sets in one; otherwise empty
};

// The value as a recipe has it, for the rows of the schema.
TomlValue toml_value(nb::handle given);

// A recipe with the settings among the arguments of stoker.Loader. Throws InvalidArgument with the key of a wrong one.
Recipe read_settings(const nb::dict& given);

// The message with arguments in the place of keys and options: "data.drop_last = false" is "drop_last=False", and
// "--skip-bad" is "skip_bad". Commands, between backticks, do not change.
std::string name_arguments(std::string_view message);

// A forked child has none of its parent's threads, and their locks may be held for ever. What belongs to such threads
// is used and destroyed by the process that made it alone.
class OwnProcess {
  public:
    bool here() const { return getpid() == id_; }

  private:
    pid_t id_ = getpid();
};

// Names of files need not be UTF-8: other bytes become what os.fsdecode makes of them.
inline nb::str text(const std::string& bytes) {
    return nb::steal<nb::str>(
        PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "surrogateescape"));
}

void bind_base(nb::module_& module);
void bind_formats(nb::module_& module);
void bind_pipeline(nb::module_& module);
void bind_settings(nb::module_& module);
void bind_pack(nb::module_& module);
void bind_order(nb::module_& module);
void bind_interrupts(nb::module_& module);
void bind_memory(nb::module_& module);

}  // namespace stoker::python
