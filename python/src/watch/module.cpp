// The extension module stoker._watch: the hooks of stoker/watch that run in every step. It is apart from
// stoker._stoker, because it needs none of its libraries and is loaded in a millisecond.
#include "python/src/watch/hook.h"

namespace stoker::watch {

namespace {

bool learn_names() {
    torch.training = PyUnicode_InternFromString("training");
    torch.workers = PyUnicode_InternFromString("_num_workers");
    torch.is_cpu = PyUnicode_InternFromString("is_cpu");
    torch.shape = PyUnicode_InternFromString("shape");
    torch.call = PyUnicode_InternFromString("__call__");
    torch.requires_grad = PyUnicode_InternFromString("requires_grad");
    return torch.requires_grad != nullptr && torch.call != nullptr && torch.shape != nullptr &&
           torch.is_cpu != nullptr && torch.workers != nullptr && torch.training != nullptr;
}

// learn(Tensor, Parameter, Module, modes, with_grad)
PyObject* learn(PyObject*, PyObject* arguments) {
    const std::array<PyObject**, 5> places = {&torch.tensor, &torch.parameter, &torch.module, &torch.modes,
                                              &torch.with_grad};
    std::array<PyObject*, 5> found{};
    if (!PyArg_ParseTuple(arguments, "OOOOO", &found[0], &found[1], &found[2], &found[3], &found[4])) {
        return nullptr;
    }
    for (std::size_t i = 0; i < places.size(); ++i) {
        PyObject* before = *places[i];
        *places[i] = Py_NewRef(found[i]);
        Py_XDECREF(before);
    }
    Py_RETURN_NONE;
}

template <std::size_t size>
PyObject* tuple_of(const std::array<const char*, size>& texts) {
    PyObject* tuple = PyTuple_New(static_cast<Py_ssize_t>(size));
    for (std::size_t i = 0; tuple != nullptr && i < size; ++i) {
        PyObject* text = PyUnicode_FromString(texts[i]);
        if (text == nullptr) {
            Py_CLEAR(tuple);
        } else {
            PyTuple_SetItem(tuple, static_cast<Py_ssize_t>(i), text);
        }
    }
    return tuple;
}

template <std::size_t size>
bool add_names(PyObject* module, const char* name, const std::array<const char*, size>& texts) {
    PyObject* tuple = tuple_of(texts);
    const bool added = tuple != nullptr && PyModule_AddObjectRef(module, name, tuple) == 0;
    Py_XDECREF(tuple);
    return added;
}

PyMethodDef functions[] = {
    {"learn", learn, METH_VARARGS, "Classes and functions of PyTorch that hooks compare with and ask."},
    {nullptr, nullptr, 0, nullptr},
};
PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_watch", nullptr, -1, functions, nullptr, nullptr, nullptr, nullptr};

}  // namespace

}  // namespace stoker::watch

// NOLINTNEXTLINE(bugprone-reserved-identifier, readability-identifier-naming): Python's name
PyMODINIT_FUNC PyInit__watch() {
    using namespace stoker::watch;
    PyObject* module = PyModule_Create(&definition);
    if (module == nullptr) {
        return nullptr;
    }
    if (learn_names() && add_names(module, "PHASES", kPhaseNames) && add_names(module, "SUMS", kSumNames) &&
        add_account(module) && add_rows(module) && add_steps(module) && add_flags(module) && add_hooks(module)) {
        return module;
    }
    Py_DECREF(module);
    return nullptr;
}
