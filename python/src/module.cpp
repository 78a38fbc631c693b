// The extension module stoker._stoker. The Python files of the package are its only user.
#include "python/src/bindings.h"

NB_MODULE(_stoker, module) {
    stoker::python::bind_base(module);
    stoker::python::bind_formats(module);
    stoker::python::bind_pipeline(module);
    stoker::python::bind_settings(module);
    stoker::python::bind_pack(module);
    stoker::python::bind_order(module);
    stoker::python::bind_interrupts(module);
    stoker::python::bind_memory(module);
}
