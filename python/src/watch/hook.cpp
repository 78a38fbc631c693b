// stoker._watch.Hook as an object of Python: its life, its name, and what makes it a method.
#include "python/src/watch/hook.h"

#include <string_view>

namespace stoker::watch {

Torch torch;

namespace {

PyObject* method_type = nullptr;  // types.MethodType

struct Kind {
    const char* name;
    vectorcallfunc call;
    Py_ssize_t calls;  // functions of Python that it needs
};
constexpr std::array<Kind, 9> kKinds = {{
    {"phase", call_phase, 0},
    {"next", call_next, kHookCalls},
    {"forward", call_forward, 2},
    {"backward", call_backward, 2},
    {"optimizer_begin", call_optimizer_begin, 1},
    {"optimizer_end", call_optimizer_end, 1},
    {"move", call_move, 1},
    {"read", call_read, 3},
    {"wait", call_wait, 1},
}};

const Kind* kind_of(const char* name) {
    for (const Kind& kind : kKinds) {
        if (std::string_view(name) == kind.name) {
            return &kind;
        }
    }
    PyErr_Format(PyExc_ValueError, "there is no hook of the kind %s", name);
    return nullptr;
}

bool is_ready(const HookFlags* flags) {
    if (flags->account != nullptr && flags->steps != nullptr && flags->steps->account != nullptr) {
        return true;
    }
    PyErr_SetString(PyExc_RuntimeError, "HookFlags has no account or no steps");
    return false;
}

// False: Python has an error.
bool take_sums(Hook* hook, PyObject* sums) {
    if (PyObject_GetBuffer(sums, &hook->sums, PyBUF_WRITABLE) < 0) {
        return false;
    }
    if (hook->sums.len >= static_cast<Py_ssize_t>(kSumNames.size() * sizeof(std::int64_t))) {
        return true;
    }
    PyErr_Format(PyExc_ValueError, "expected sums of %d numbers of 8 bytes, found %zd bytes", int{kSumNames.size()},
                 hook->sums.len);
    return false;
}

PyObject* none_as_null(PyObject* object) {
    return object == nullptr || object == Py_None ? nullptr : Py_NewRef(object);
}

// Hook(kind, flags, original, *, calls=(), number=0, sums=None, place=None, owner=None)
PyObject* create(PyTypeObject* type, PyObject* arguments, PyObject* options) {
    static const char* names[] = {"kind", "flags", "original", "calls", "number", "sums", "place", "owner", nullptr};
    const char* name = nullptr;
    PyObject *flags = nullptr, *original = nullptr, *calls = nullptr, *sums = nullptr, *place = nullptr;
    PyObject* owner = nullptr;
    int number = 0;
    if (!PyArg_ParseTupleAndKeywords(arguments, options, "sO!O|$O!iOOO", const_cast<char**>(names), &name, flags_type,
                                     &flags, &original, &PyTuple_Type, &calls, &number, &sums, &place, &owner)) {
        return nullptr;
    }
    const Kind* kind = kind_of(name);
    if (kind == nullptr || !is_ready(reinterpret_cast<HookFlags*>(flags))) {
        return nullptr;
    }
    const Py_ssize_t count = calls == nullptr ? 0 : PyTuple_Size(calls);
    if (number < 0 || number > Unmeasured || count != kind->calls) {
        return PyErr_Format(PyExc_ValueError, "expected a number from 0 to %d and %zd calls, found %d and %zd",
                            int{Unmeasured}, kind->calls, number, count);
    }
    PyObject* self = PyType_GenericAlloc(type, 0);
    if (self == nullptr) {
        return nullptr;
    }
    Hook* hook = hook_of(self);
    hook->call = kind->call;
    hook->number = number;
    hook->measures = 1;
    hook->original = Py_NewRef(original);
    hook->flags = reinterpret_cast<HookFlags*>(Py_NewRef(flags));
    hook->place = none_as_null(place);
    hook->owner = none_as_null(owner);
    for (Py_ssize_t i = 0; i < count; ++i) {
        hook->calls[static_cast<std::size_t>(i)] = Py_NewRef(PyTuple_GetItem(calls, i));
    }
    if (sums != nullptr && sums != Py_None && !take_sums(hook, sums)) {
        Py_CLEAR(self);
    }
    return self;
}

int traverse(PyObject* self, visitproc visit, void* arg) {
    Hook* hook = hook_of(self);
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(hook->attributes);
    Py_VISIT(hook->original);
    Py_VISIT(hook->place);
    Py_VISIT(hook->owner);
    Py_VISIT(hook->above);
    Py_VISIT(reinterpret_cast<PyObject*>(hook->flags));
    for (PyObject* call : hook->calls) {
        Py_VISIT(call);
    }
    return 0;
}

// Flags and original stay until the object is gone, because a call may still come. Cycles go through the rest.
int clear(PyObject* self) {
    Hook* hook = hook_of(self);
    Py_CLEAR(hook->attributes);
    Py_CLEAR(hook->owner);
    Py_CLEAR(hook->above);
    for (PyObject*& call : hook->calls) {
        Py_CLEAR(call);
    }
    return 0;
}

void destroy(PyObject* self) {
    PyObject_GC_UnTrack(self);
    PyObject_ClearWeakRefs(self);
    clear(self);
    Hook* hook = hook_of(self);
    if (hook->sums.obj != nullptr) {
        PyBuffer_Release(&hook->sums);
    }
    Py_XDECREF(hook->original);
    Py_XDECREF(hook->place);
    Py_XDECREF(reinterpret_cast<PyObject*>(hook->flags));
    free_object(self);
}

PyObject* bind(PyObject* self, PyObject* instance, PyObject*) {
    if (instance == nullptr || instance == Py_None) {
        return Py_NewRef(self);
    }
    return PyObject_CallFunctionObjArgs(method_type, self, instance, nullptr);
}

// Methods of Tensor are equal to what they replace: programs look them up in sets and tables of their own.
PyObject* compare(PyObject* self, PyObject* other, int how) {
    if (how != Py_EQ && how != Py_NE) {
        Py_RETURN_NOTIMPLEMENTED;
    }
    int same = self == other ? 1 : 0;
    if (same == 0 && hook_of(self)->place != nullptr) {
        same = PyObject_RichCompareBool(hook_of(self)->original, other, Py_EQ);
    }
    return same < 0 ? nullptr : PyBool_FromLong((same == 1) == (how == Py_EQ));
}

Py_hash_t hash(PyObject* self) {
    if (hook_of(self)->place != nullptr) {
        return PyObject_Hash(hook_of(self)->original);
    }
    return static_cast<Py_hash_t>(reinterpret_cast<std::uintptr_t>(self) >> 4);
}

PyObject* named(const char* module_name, const char* name) {
    PyObject* module = PyImport_ImportModule(module_name);
    PyObject* found = module == nullptr ? nullptr : PyObject_GetAttrString(module, name);
    Py_XDECREF(module);
    return found;
}

// Pickled by name, as functions are. One without a name, which a function holds that is pickled by value, becomes what
// it replaces.
PyObject* reduce(PyObject* self, PyObject*) {
    const Hook* hook = hook_of(self);
    if (hook->place != nullptr) {
        PyObject* getattr = named("builtins", "getattr");
        return getattr == nullptr ? nullptr : Py_BuildValue("(NO)", getattr, hook->place);
    }
    PyObject* name = PyObject_GetAttrString(self, "__qualname__");
    if (name != nullptr || !PyErr_ExceptionMatches(PyExc_AttributeError)) {
        return name;
    }
    PyErr_Clear();
    PyObject* getitem = named("operator", "getitem");
    return getitem == nullptr ? nullptr : Py_BuildValue("(N((O)i))", getitem, hook->original, 0);
}

// PyTorch's compiler and other programs tell a method of Tensor by its class and by where it is from. `inspect` reads
// its signature, which methods without arguments have from Python 3.13 on.
PyObject* attribute(PyObject* self, PyObject* name) {
    if (hook_of(self)->place == nullptr) {
        return PyObject_GenericGetAttr(self, name);
    }
    for (const char* answered : {"__class__", "__module__", "__objclass__", "__text_signature__"}) {
        if (PyUnicode_CompareWithASCIIString(name, answered) == 0) {
            return PyObject_GetAttr(hook_of(self)->original, name);
        }
    }
    return PyObject_GenericGetAttr(self, name);
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
    {Py_tp_getattro, slot(attribute)},
    {Py_tp_descr_get, slot(bind)},
    {Py_tp_richcompare, slot(compare)},
    {Py_tp_hash, slot(hash)},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {Py_tp_getset, properties},
    {0, nullptr},
};
constexpr unsigned kHookFlags =
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR;
PyType_Spec spec = {"stoker._watch.Hook", sizeof(Hook), 0, kHookFlags, slots};

}  // namespace

bool fail(const Hook* hook) {
    PyObject *type = nullptr, *error = nullptr, *trace = nullptr;
    PyErr_Fetch(&type, &error, &trace);
    if (!PyErr_GivenExceptionMatches(type, PyExc_Exception)) {
        PyErr_Restore(type, error, trace);
        return false;
    }
    PyErr_NormalizeException(&type, &error, &trace);
    PyObject* done = nullptr;
    if (hook->flags->fail != nullptr) {
        done = call_with(hook->flags->fail, error);
    } else {
        PyErr_Restore(Py_XNewRef(type), Py_XNewRef(error), Py_XNewRef(trace));
    }
    Py_XDECREF(type);
    Py_XDECREF(error);
    Py_XDECREF(trace);
    Py_XDECREF(done);
    return done != nullptr;
}

PyObject* tell(PyObject* function, PyObject* result, Arguments arguments, std::size_t count) {
    PyObject *type = nullptr, *error = nullptr, *trace = nullptr;
    if (result == nullptr) {
        PyErr_Fetch(&type, &error, &trace);
    }
    PyObject* done = PyObject_Vectorcall(function, arguments, count, nullptr);
    if (done == nullptr) {
        Py_CLEAR(result);
        Py_CLEAR(type);
        Py_CLEAR(error);
        Py_CLEAR(trace);
        return nullptr;
    }
    Py_DECREF(done);
    if (result == nullptr) {
        PyErr_Restore(type, error, trace);
    }
    return result;
}

int ask(PyObject* function) {
    PyObject* answer = PyObject_CallNoArgs(function);
    const int truth = answer == nullptr ? -1 : PyObject_IsTrue(answer);
    Py_XDECREF(answer);
    return truth;
}

bool refers_to(PyObject* reference, PyObject* object) {
    if (reference == nullptr || !PyWeakref_Check(reference)) {
        return false;
    }
    PyObject* target = PyObject_CallNoArgs(reference);
    const bool same = target == object;
    Py_XDECREF(target);
    return same;
}

bool add_hooks(PyObject* module) {
    method_type = named("types", "MethodType");
    return method_type != nullptr && add_type(module, &spec) != nullptr;
}

}  // namespace stoker::watch
