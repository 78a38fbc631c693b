// stoker._watch.Account: the training thread is in exactly one phase; a nested phase suspends the outer one. Used by
// that thread only; others may read `phase`.
#include "python/src/watch/hook_types.h"

#include <ctime>

namespace stoker::watch {

PyTypeObject* account_type = nullptr;

namespace {

std::int64_t read_clock(clockid_t clock) {
    timespec now{};
    clock_gettime(clock, &now);
    return std::int64_t{1'000'000'000} * now.tv_sec + now.tv_nsec;
}

Account* of(PyObject* self) {
    return reinterpret_cast<Account*>(self);
}

bool is_phase(long phase) {
    if (phase >= 0 && phase <= Unmeasured) {
        return true;
    }
    PyErr_Format(PyExc_ValueError, "expected a phase from 0 to %d, found %ld", int{Unmeasured}, phase);
    return false;
}

int init(PyObject* self, PyObject*, PyObject*) {
    of(self)->phase = Unmeasured;
    of(self)->since = nanoseconds();
    of(self)->times = {};
    return 0;
}

PyObject* enter(PyObject* self, PyObject* argument) {
    const long phase = PyLong_AsLong(argument);
    if (PyErr_Occurred() || !is_phase(phase)) {
        return nullptr;
    }
    return PyLong_FromLong(of(self)->enter(static_cast<int>(phase)));
}

PyObject* charge(PyObject* self, PyObject* arguments) {
    int phase = 0;
    long long nanoseconds = 0;
    if (!PyArg_ParseTuple(arguments, "iL", &phase, &nanoseconds) || !is_phase(phase)) {
        return nullptr;
    }
    of(self)->times[static_cast<std::size_t>(phase)] += nanoseconds;
    of(self)->times[static_cast<std::size_t>(of(self)->phase)] -= nanoseconds;
    Py_RETURN_NONE;
}

PyObject* take(PyObject* self, PyObject* arguments) {
    int phase = of(self)->phase;
    if (!PyArg_ParseTuple(arguments, "|i", &phase) || !is_phase(phase)) {
        return nullptr;
    }
    of(self)->enter(phase);
    PyObject* times = list_of(of(self)->times);
    if (times != nullptr) {
        of(self)->times = {};
    }
    return times;
}

PyObject* times(PyObject* self, void*) {
    return list_of(of(self)->times);
}

PyMethodDef methods[] = {
    {"enter", enter, METH_O, "Switches to a phase and returns the phase that was running."},
    {"charge", charge, METH_VARARGS, "Moves time that was measured within the running phase to another one."},
    {"take", take, METH_VARARGS, "The time since the last call, by phase. From now on the given phase is running."},
    {nullptr, nullptr, 0, nullptr},
};
PyMemberDef members[] = {
    {"phase", T_INT, offsetof(Account, phase), READONLY, nullptr},
    {"since", T_LONGLONG, offsetof(Account, since), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};
PyGetSetDef properties[] = {{"times", times, nullptr, nullptr, nullptr}, {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyType_Slot slots[] = {
    {Py_tp_init, slot(init)},
    {Py_tp_dealloc, slot(free_object)},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {Py_tp_getset, properties},
    {Py_tp_new, slot(PyType_GenericNew)},
    {0, nullptr},
};
PyType_Spec spec = {"stoker._watch.Account", sizeof(Account), 0, Py_TPFLAGS_DEFAULT, slots};

}  // namespace

std::int64_t nanoseconds() {
    return read_clock(CLOCK_MONOTONIC);
}
std::int64_t core_nanoseconds() {
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

int Account::enter(int next) {
    const std::int64_t now = nanoseconds();
    const int previous = phase;
    times[static_cast<std::size_t>(previous)] += now - since;
    since = now;
    phase = next;
    return previous;
}

// The running phase's time since the last `take`. Differences leave out nested phases and charges.
std::int64_t Account::running() const {
    return times[static_cast<std::size_t>(phase)] + nanoseconds() - since;
}

PyObject* list_of(const Times& times) {
    PyObject* list = PyList_New(static_cast<Py_ssize_t>(times.size()));
    for (std::size_t i = 0; list != nullptr && i < times.size(); ++i) {
        PyObject* number = PyLong_FromLongLong(times[i]);
        if (number == nullptr) {
            Py_CLEAR(list);
        } else {
            PyList_SetItem(list, static_cast<Py_ssize_t>(i), number);
        }
    }
    return list;
}

bool times_of(PyObject* list, Times& times) {
    for (std::size_t i = 0; i < times.size(); ++i) {
        PyObject* number = PySequence_GetItem(list, static_cast<Py_ssize_t>(i));
        if (number == nullptr) {
            return false;
        }
        times[i] = PyLong_AsLongLong(number);
        Py_DECREF(number);
        if (PyErr_Occurred()) {
            return false;
        }
    }
    return true;
}

void free_object(PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

PyTypeObject* add_type(PyObject* module, PyType_Spec* spec) {
    PyObject* type = PyType_FromSpec(spec);
    if (type != nullptr && PyModule_AddType(module, reinterpret_cast<PyTypeObject*>(type)) < 0) {
        Py_CLEAR(type);
    }
    return reinterpret_cast<PyTypeObject*>(type);
}

bool add_account(PyObject* module) {
    account_type = add_type(module, &spec);
    return account_type != nullptr;
}

}  // namespace stoker::watch
