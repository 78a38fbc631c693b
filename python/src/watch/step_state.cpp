// stoker._watch.StepState and HookFlags: bases of classes of Python, whose attributes the hooks read without Python.
#include "python/src/watch/step_rows.h"

namespace stoker::watch {

PyTypeObject* steps_type = nullptr;
PyTypeObject* flags_type = nullptr;

namespace {

StepState* steps_of(PyObject* self) {
    return reinterpret_cast<StepState*>(self);
}
HookFlags* flags_of(PyObject* self) {
    return reinterpret_cast<HookFlags*>(self);
}

template <class T>
void assign(T*& place, PyObject* value) {
    T* before = place;
    place = reinterpret_cast<T*>(Py_NewRef(value));
    Py_XDECREF(reinterpret_cast<PyObject*>(before));
}

int init_steps(PyObject* self, PyObject* arguments, PyObject*) {
    PyObject *account = nullptr, *rows = nullptr;
    if (!PyArg_ParseTuple(arguments, "O!O!", account_type, &account, rows_type, &rows)) {
        return -1;
    }
    assign(steps_of(self)->account, account);
    assign(steps_of(self)->rows, rows);
    PyObject* trained = PySet_New(nullptr);
    if (trained == nullptr) {
        return -1;
    }
    assign(steps_of(self)->trained, trained);
    Py_DECREF(trained);
    steps_of(self)->ready = -1;
    steps_of(self)->per_batch = -1;
    return 0;
}

PyObject* close(PyObject* self, PyObject* parts) {
    Times times{};
    if (steps_of(self)->account == nullptr) {
        return PyErr_Format(PyExc_RuntimeError, "StepState has no account");
    }
    if (parts != Py_None && !times_of(parts, times)) {
        return nullptr;
    }
    if (!steps_of(self)->close(parts == Py_None ? nullptr : &times)) {
        return nullptr;
    }
    Py_RETURN_NONE;
}

int traverse_steps(PyObject* self, visitproc visit, void* arg) {
    StepState* steps = steps_of(self);
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(reinterpret_cast<PyObject*>(steps->account));
    Py_VISIT(reinterpret_cast<PyObject*>(steps->rows));
    Py_VISIT(steps->asked);
    Py_VISIT(steps->optimizer);
    Py_VISIT(steps->trained);
    return 0;
}

// Account and rows stay until the object is gone: hooks read them without a look whether they are there.
int clear_steps(PyObject* self) {
    Py_CLEAR(steps_of(self)->asked);
    Py_CLEAR(steps_of(self)->optimizer);
    return 0;
}

void destroy_steps(PyObject* self) {
    PyObject_GC_UnTrack(self);
    clear_steps(self);
    Py_XDECREF(steps_of(self)->trained);
    Py_XDECREF(reinterpret_cast<PyObject*>(steps_of(self)->account));
    Py_XDECREF(reinterpret_cast<PyObject*>(steps_of(self)->rows));
    free_object(self);
}

int init_flags(PyObject* self, PyObject* arguments, PyObject*) {
    PyObject *account = nullptr, *steps = nullptr, *fail = nullptr;
    if (!PyArg_ParseTuple(arguments, "O!O!O", account_type, &account, steps_type, &steps, &fail)) {
        return -1;
    }
    assign(flags_of(self)->account, account);
    assign(flags_of(self)->steps, steps);
    assign(flags_of(self)->fail, fail);
    flags_of(self)->thread = PyThread_get_thread_ident();
    flags_of(self)->base = Unmeasured;
    return 0;
}

int traverse_flags(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(reinterpret_cast<PyObject*>(flags_of(self)->account));
    Py_VISIT(reinterpret_cast<PyObject*>(flags_of(self)->steps));
    Py_VISIT(flags_of(self)->fail);
    Py_VISIT(flags_of(self)->around);
    return 0;
}

int clear_flags(PyObject* self) {
    Py_CLEAR(flags_of(self)->fail);
    Py_CLEAR(flags_of(self)->around);
    return 0;
}

void destroy_flags(PyObject* self) {
    PyObject_GC_UnTrack(self);
    clear_flags(self);
    Py_XDECREF(reinterpret_cast<PyObject*>(flags_of(self)->account));
    Py_XDECREF(reinterpret_cast<PyObject*>(flags_of(self)->steps));
    free_object(self);
}

PyObject* base_of(PyObject* self, void*) {
    return PyLong_FromLong(flags_of(self)->base);
}

int set_base(PyObject* self, PyObject* value, void*) {
    const long phase = value == nullptr ? -1 : PyLong_AsLong(value);
    if (PyErr_Occurred()) {
        return -1;
    }
    if (phase < 0 || phase > Unmeasured) {
        PyErr_Format(PyExc_ValueError, "expected a phase from 0 to %d, found %ld", int{Unmeasured}, phase);
        return -1;
    }
    flags_of(self)->base = static_cast<int>(phase);
    return 0;
}

PyMethodDef step_methods[] = {
    {"close", close, METH_O, "The step ends now; to its time by phase belongs, if it is not None, that of its parts."},
    {nullptr, nullptr, 0, nullptr},
};
PyMemberDef step_members[] = {
    {"rows", T_OBJECT, offsetof(StepState, rows), READONLY, nullptr},
    {"training", T_BOOL, offsetof(StepState, training), 0, nullptr},
    {"in_parts", T_BOOL, offsetof(StepState, in_parts), 0, nullptr},
    {"asked", T_OBJECT, offsetof(StepState, asked), 0, nullptr},
    {"optimizer", T_OBJECT, offsetof(StepState, optimizer), 0, nullptr},
    {"trained", T_OBJECT, offsetof(StepState, trained), READONLY, nullptr},
    {"per_batch", T_LONGLONG, offsetof(StepState, per_batch), 0, nullptr},
    {"batches", T_LONGLONG, offsetof(StepState, batches), 0, nullptr},
    {"samples", T_LONGLONG, offsetof(StepState, samples), 0, nullptr},
    {"ready", T_LONGLONG, offsetof(StepState, ready), 0, nullptr},
    {"copied", T_LONGLONG, offsetof(StepState, copied), 0, nullptr},
    {"others", T_LONGLONG, offsetof(StepState, others), 0, nullptr},
    {"epoch", T_LONGLONG, offsetof(StepState, epoch), 0, nullptr},
    {"backwards", T_LONGLONG, offsetof(StepState, backwards), 0, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};
PyMemberDef flag_members[] = {
    {"account", T_OBJECT, offsetof(HookFlags, account), READONLY, nullptr},
    {"steps", T_OBJECT, offsetof(HookFlags, steps), READONLY, nullptr},
    {"thread", T_ULONG, offsetof(HookFlags, thread), 0, nullptr},
    {"around", T_OBJECT, offsetof(HookFlags, around), 0, nullptr},
    {"inside", T_BOOL, offsetof(HookFlags, inside), 0, nullptr},
    {"in_backward", T_BOOL, offsetof(HookFlags, in_backward), 0, nullptr},
    {"stepped_in_backward", T_BOOL, offsetof(HookFlags, stepped_in_backward), 0, nullptr},
    {"steady", T_BOOL, offsetof(HookFlags, steady), 0, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};
PyGetSetDef flag_properties[] = {{"base", base_of, set_base, nullptr, nullptr},
                                 {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyType_Slot step_slots[] = {
    {Py_tp_new, slot(PyType_GenericNew)}, {Py_tp_init, slot(init_steps)},
    {Py_tp_dealloc, slot(destroy_steps)}, {Py_tp_traverse, slot(traverse_steps)},
    {Py_tp_clear, slot(clear_steps)},     {Py_tp_methods, step_methods},
    {Py_tp_members, step_members},        {0, nullptr},
};
PyType_Slot flag_slots[] = {
    {Py_tp_new, slot(PyType_GenericNew)}, {Py_tp_init, slot(init_flags)},
    {Py_tp_dealloc, slot(destroy_flags)}, {Py_tp_traverse, slot(traverse_flags)},
    {Py_tp_clear, slot(clear_flags)},     {Py_tp_members, flag_members},
    {Py_tp_getset, flag_properties},      {0, nullptr},
};
constexpr unsigned kFlags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE;
PyType_Spec steps_spec = {"stoker._watch.StepState", sizeof(StepState), 0, kFlags, step_slots};
PyType_Spec flags_spec = {"stoker._watch.HookFlags", sizeof(HookFlags), 0, kFlags, flag_slots};

}  // namespace

bool StepState::close(const Times* parts) {
    account->enter(Unmeasured);
    StepRow row{epoch, batches, samples, ready, copied, account->times};
    account->times = {};
    for (std::size_t phase = 0; parts != nullptr && phase < row.times.size(); ++phase) {
        row.times[phase] += (*parts)[phase];
    }
    batches = samples = copied = others = 0;
    ready = -1;
    return rows->add(row, account->since);
}

bool add_steps(PyObject* module) {
    steps_type = add_type(module, &steps_spec);
    return steps_type != nullptr;
}

bool add_flags(PyObject* module) {
    flags_type = add_type(module, &flags_spec);
    return flags_type != nullptr;
}

}  // namespace stoker::watch
