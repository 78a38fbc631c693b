// stoker._watch.Hook as an object of Python: its life, its name, and what makes it a method.
#include "python/src/watch/hook.h"

#include <string_view>

namespace stoker::watch {

Torch torch;

namespace {

PyTypeObject* hook_type = nullptr;
PyObject* method_type = nullptr;  // types.MethodType

struct Kind {
    const char* name;
    vectorcallfunc call;
};
constexpr std::array<Kind, 9> kinds = {{
    {"phase", call_phase},
    {"next", call_next},
    {"forward", call_forward},
    {"backward", call_backward},
    {"optimizer_begin", call_optimizer_begin},
    {"optimizer_end", call_optimizer_end},
    {"move", call_move},
    {"read", call_read},
    {"wait", call_wait},
}};

vectorcallfunc entry_of(const char* name) {
    for (const Kind& kind : kinds)
        if (std::string_view(name) == kind.name)
            return kind.call;
    PyErr_Format(PyExc_ValueError, "there is no hook of the kind %s", name);
    return nullptr;
}

bool is_ready(const HookFlags* flags) {
    if (flags->account != nullptr && flags->steps != nullptr && flags->steps->account != nullptr)
        return true;
    PyErr_SetString(PyExc_RuntimeError, "HookFlags has no account or no steps");
    return false;
}

// Hook(kind, flags, original, *, calls=(), number=0, sums=None, place=None)
PyObject* create(PyTypeObject* type, PyObject* arguments, PyObject* options) {
    static const char* names[] = {"kind", "flags", "original", "calls", "number", "sums", "place", nullptr};
    const char* kind = nullptr;
    PyObject *flags = nullptr, *original = nullptr, *calls = nullptr, *sums = nullptr, *place = nullptr;
    int number = 0;
    if (!PyArg_ParseTupleAndKeywords(arguments, options, "sO!O|$O!iOO", const_cast<char**>(names), &kind, flags_type,
                                     &flags, &original, &PyTuple_Type, &calls, &number, &sums, &place))
        return nullptr;
    const vectorcallfunc entry = entry_of(kind);
    if (entry == nullptr || !is_ready(reinterpret_cast<HookFlags*>(flags)))
        return nullptr;
    const Py_ssize_t count = calls == nullptr ? 0 : PyTuple_Size(calls);
    if (number < 0 || number > Unmeasured || count > static_cast<Py_ssize_t>(hook_calls))
        return PyErr_Format(PyExc_ValueError, "a hook has a number from 0 to 8 and at most 5 calls");
    PyObject* self = PyType_GenericAlloc(type, 0);
    if (self == nullptr)
        return nullptr;
    Hook* hook = hook_of(self);
    hook->call = entry;
    hook->number = number;
    hook->measures = 1;
    hook->original = Py_NewRef(original);
    hook->flags = reinterpret_cast<HookFlags*>(Py_NewRef(flags));
    hook->place = place == nullptr || place == Py_None ? nullptr : Py_NewRef(place);
    for (Py_ssize_t i = 0; i < count; ++i)
        hook->calls[static_cast<std::size_t>(i)] = Py_NewRef(PyTuple_GetItem(calls, i));
    if (sums != nullptr && sums != Py_None && PyObject_GetBuffer(sums, &hook->sums, PyBUF_WRITABLE) < 0)
        Py_CLEAR(self);
    return self;
}

int traverse(PyObject* self, visitproc visit, void* arg) {
    Hook* hook = hook_of(self);
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(hook->attributes);
    Py_VISIT(hook->original);
    Py_VISIT(hook->place);
    Py_VISIT(reinterpret_cast<PyObject*>(hook->flags));
    for (PyObject* call : hook->calls)
        Py_VISIT(call);
    return 0;
}

// Flags and original stay until the object is gone, because a call may still come. Cycles go through the rest.
int clear(PyObject* self) {
    Hook* hook = hook_of(self);
    Py_CLEAR(hook->attributes);
    for (PyObject*& call : hook->calls)
        Py_CLEAR(call);
    return 0;
}

void destroy(PyObject* self) {
    PyObject_GC_UnTrack(self);
    PyObject_ClearWeakRefs(self);
    clear(self);
    Hook* hook = hook_of(self);
    if (hook->sums.obj != nullptr)
        PyBuffer_Release(&hook->sums);
    Py_XDECREF(hook->original);
    Py_XDECREF(hook->place);
    Py_XDECREF(reinterpret_cast<PyObject*>(hook->flags));
    free_object(self);
}

PyObject* bind(PyObject* self, PyObject* instance, PyObject*) {
    if (instance == nullptr || instance == Py_None)
        return Py_NewRef(self);
    return PyObject_CallFunctionObjArgs(method_type, self, instance, nullptr);
}

// Methods of Tensor are equal to what they replace: programs look them up in sets and tables of their own.
PyObject* compare(PyObject* self, PyObject* other, int how) {
    if (how != Py_EQ && how != Py_NE)
        Py_RETURN_NOTIMPLEMENTED;
    int same = self == other ? 1 : 0;
    if (same == 0 && hook_of(self)->place != nullptr)
        same = PyObject_RichCompareBool(hook_of(self)->original, other, Py_EQ);
    return same < 0 ? nullptr : PyBool_FromLong((same == 1) == (how == Py_EQ));
}

Py_hash_t hash(PyObject* self) {
    if (hook_of(self)->place != nullptr)
        return PyObject_Hash(hook_of(self)->original);
    return static_cast<Py_hash_t>(reinterpret_cast<std::uintptr_t>(self) >> 4);
}

// Pickled by name, as functions are.
PyObject* reduce(PyObject* self, PyObject*) {
    if (hook_of(self)->place == nullptr)
        return PyObject_GetAttrString(self, "__qualname__");
    PyObject* builtins = PyImport_ImportModule("builtins");
    PyObject* getattr = builtins == nullptr ? nullptr : PyObject_GetAttrString(builtins, "getattr");
    Py_XDECREF(builtins);
    return getattr == nullptr ? nullptr : Py_BuildValue("(NO)", getattr, hook_of(self)->place);
}

PyMethodDef methods[] = {{"__reduce__", reduce, METH_NOARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};
PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Hook, call), READONLY, nullptr},
    {"__dictoffset__", T_PYSSIZET, offsetof(Hook, attributes), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Hook, references), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};
PyGetSetDef properties[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};
PyType_Slot slots[] = {
    {Py_tp_new, slot(create)},
    {Py_tp_dealloc, slot(destroy)},
    {Py_tp_traverse, slot(traverse)},
    {Py_tp_clear, slot(clear)},
    {Py_tp_call, slot(PyVectorcall_Call)},
    {Py_tp_descr_get, slot(bind)},
    {Py_tp_richcompare, slot(compare)},
    {Py_tp_hash, slot(hash)},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {Py_tp_getset, properties},
    {0, nullptr},
};
constexpr unsigned hook_flags =
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR;
PyType_Spec spec = {"stoker._watch.Hook", sizeof(Hook), 0, hook_flags, slots};

}  // namespace

bool fail(const Hook* hook) {
    PyObject *type = nullptr, *error = nullptr, *trace = nullptr;
    PyErr_Fetch(&type, &error, &trace);
    PyErr_NormalizeException(&type, &error, &trace);
    if (trace != nullptr)
        PyException_SetTraceback(error, trace);
    PyObject* done = nullptr;
    if (hook->flags->fail != nullptr)
        done = call_with(hook->flags->fail, error);
    else
        PyErr_Restore(Py_XNewRef(type), Py_XNewRef(error), Py_XNewRef(trace));
    Py_XDECREF(type);
    Py_XDECREF(error);
    Py_XDECREF(trace);
    Py_XDECREF(done);
    return done != nullptr;
}

PyObject* tell(const Hook* hook, std::size_t call, PyObject* result, Arguments arguments, std::size_t count) {
    PyObject *type = nullptr, *error = nullptr, *trace = nullptr;
    if (result == nullptr)
        PyErr_Fetch(&type, &error, &trace);
    PyObject* done = PyObject_Vectorcall(hook->calls[call], arguments, count, nullptr);
    if (done == nullptr) {
        Py_CLEAR(result);
        Py_CLEAR(type);
        Py_CLEAR(error);
        Py_CLEAR(trace);
        return nullptr;
    }
    Py_DECREF(done);
    if (result == nullptr)
        PyErr_Restore(type, error, trace);
    return result;
}

int ask(PyObject* function) {
    PyObject* answer = PyObject_CallNoArgs(function);
    const int truth = answer == nullptr ? -1 : PyObject_IsTrue(answer);
    Py_XDECREF(answer);
    return truth;
}

bool refers_to(PyObject* reference, PyObject* object) {
    if (reference == nullptr || !PyWeakref_Check(reference))
        return false;
    PyObject* target = PyObject_CallNoArgs(reference);
    const bool same = target == object;
    Py_XDECREF(target);
    return same;
}

bool add_hooks(PyObject* module) {
    PyObject* types = PyImport_ImportModule("types");
    method_type = types == nullptr ? nullptr : PyObject_GetAttrString(types, "MethodType");
    Py_XDECREF(types);
    hook_type = method_type == nullptr ? nullptr : add_type(module, &spec);
    return hook_type != nullptr;
}

}  // namespace stoker::watch
