// Stoker's exceptions as those of stoker.errors, and the version.
#include <nanobind/nanobind.h>

#include <optional>

#include "python/src/bindings.h"
#include "stoker/base/error.h"
#include "stoker/pipeline/batch.h"

namespace stoker::python {
namespace {

nb::object python_error(const char* type, const char* message) {
    return nb::module_::import_("stoker.errors").attr(type)(text(name_arguments(message)));
}

void raise(const nb::object& error) {
    PyErr_SetObject(error.type().ptr(), error.ptr());
}

void raise_data_error(const char* type, const DataError& error) {
    const nb::object raised = python_error(type, error.what());
    const auto or_none = [](const std::optional<std::int64_t>& number) {
        return number ? nb::object(nb::int_(*number)) : nb::object(nb::none());
    };
    raised.attr("path") = text(error.place().path);
    raised.attr("key") = text(error.place().key);
    raised.attr("index") = or_none(error.place().index);
    raised.attr("offset") = or_none(error.place().offset);
    raise(raised);
}

// The most derived class that Python knows. Others are left to nanobind's own translators.
void translate(const std::exception_ptr& pointer, void* /*payload*/) {
    try {
        std::rethrow_exception(pointer);
    } catch (const TooManyBadSamples& error) {
        raise_data_error("TooManyBadSamples", error);
    } catch (const DataError& error) {
        raise_data_error("DataError", error);
    } catch (const InvalidArgument& error) {
        raise(python_error("InvalidArgument", error.what()));
    } catch (const IoError& error) {
        raise(python_error("IoError", error.what()));
    } catch (const Unsupported& error) {
        raise(python_error("Unsupported", error.what()));
    } catch (const Error& error) {
        raise(python_error("Error", error.what()));
    }
}

}  // namespace

void bind_base(nb::module_& module) {
    nb::set_leak_warnings(false);  // a loader in a global variable lives until the interpreter ends
    module.attr("version") = STOKER_VERSION;
    nb::register_exception_translator(translate);
}

}  // namespace stoker::python
