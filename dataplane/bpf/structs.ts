/**
 * The option structs of libbpf 1.1 (bpf/libbpf.h, bpf/bpf.h) that the driver fills. Each begins with its own size, by
 * which a newer libbpf knows which fields its caller has heard of.
 */
import koffi, { type TypeObject } from 'koffi'

/** struct bpf_object_open_opts */
export interface OpenOptions {
  sz: number
  object_name: string
  relaxed_maps: boolean
  pin_root_path: string | null
  unused: number
  kconfig: null
  btf_custom_path: null
  kernel_log_buf: Uint8Array
  kernel_log_size: number
  kernel_log_level: number
}

/** struct bpf_map_create_opts up to its flags */
export interface MapOptions {
  sz: number
  btf_fd: number
  btf_key_type_id: number
  btf_value_type_id: number
  btf_vmlinux_value_type_id: number
  inner_map_fd: number
  map_flags: number
}

/** struct bpf_link_create_opts up to its flags */
export interface LinkOptions {
  sz: number
  flags: number
}

/** struct bpf_test_run_opts: read before the run, written back after it */
export interface TestRun {
  sz: number
  data_in: Uint8Array
  data_out: Uint8Array | null
  data_size_in: number
  data_size_out: number
  ctx_in: Uint8Array | null
  ctx_out: Uint8Array | null
  ctx_size_in: number
  ctx_size_out: number
  retval: number
  repeat: number
  duration: number
  flags: number
  cpu: number
  batch_size: number
}

/** What koffi allocates for each, trailing padding included. */
const OPEN_OPTIONS_SIZE = 80
const MAP_OPTIONS_SIZE = 32
const LINK_OPTIONS_SIZE = 16
const TEST_RUN_SIZE = 80

/**
 * `name` begins the names of the maps of constants. `pinDir` is where maps declared LIBBPF_PIN_BY_NAME are pinned. The kernel writes to `log` while loading: it must stay
 * referenced until then.
 */
export function openOptions(name: string, pinDir: string | null, log: Uint8Array): OpenOptions {
  return {
    sz: OPEN_OPTIONS_SIZE,
    object_name: name,
    relaxed_maps: false,
    pin_root_path: pinDir,
    unused: 0,
    kconfig: null,
    btf_custom_path: null,
    kernel_log_buf: log,
    kernel_log_size: log.length,
    kernel_log_level: 0,
  }
}

export function mapOptions(flags: number): MapOptions {
  return {
    sz: MAP_OPTIONS_SIZE,
    btf_fd: 0,
    btf_key_type_id: 0,
    btf_value_type_id: 0,
    btf_vmlinux_value_type_id: 0,
    inner_map_fd: 0,
    map_flags: flags,
  }
}

export function linkOptions(flags: number): LinkOptions {
  return { sz: LINK_OPTIONS_SIZE, flags }
}

/** `context` null where the program type takes none; `room` is how many bytes the program may add to `data`. */
export function testRun(data: Uint8Array, context: Uint8Array | null, repeat: number, room: number): TestRun {
  const out = Buffer.alloc(data.length + room)
  return {
    sz: TEST_RUN_SIZE,
    data_in: data,
    data_out: out,
    data_size_in: data.length,
    data_size_out: out.length,
    ctx_in: context,
    ctx_out: context && Buffer.alloc(context.length),
    ctx_size_in: context?.length ?? 0,
    ctx_size_out: context?.length ?? 0,
    retval: 0,
    repeat,
    duration: 0,
    flags: 0,
    cpu: 0,
    batch_size: 0,
  }
}

/** BPF_F_TEST_XDP_LIVE_FRAMES of linux/bpf.h: what an XDP program passes goes into the stack, and nothing comes back. */
const LIVE_FRAMES = 2

/** `count` runs whose packets go on, `batch` of them at a time (at most 256). */
export function liveRun(data: Uint8Array, context: Uint8Array, count: number, batch: number): TestRun {
  const none = { data_out: null, data_size_out: 0, ctx_out: null, ctx_size_out: 0 }
  return { ...testRun(data, context, count, 0), ...none, flags: LIVE_FRAMES, batch_size: batch }
}

/** Tells koffi the structs, under the names that the prototypes use. Once per process. */
export function declareStructs(): void {
  declare('bpf_object_open_opts', OPEN_OPTIONS_SIZE, {
    sz: 'size_t',
    object_name: 'const char *',
    relaxed_maps: 'bool',
    pin_root_path: 'const char *',
    unused: 'uint32_t',
    kconfig: 'const char *',
    btf_custom_path: 'const char *',
    kernel_log_buf: 'void *',
    kernel_log_size: 'size_t',
    kernel_log_level: 'uint32_t',
  })
  declare('bpf_map_create_opts', MAP_OPTIONS_SIZE, {
    sz: 'size_t',
    btf_fd: 'uint32_t',
    btf_key_type_id: 'uint32_t',
    btf_value_type_id: 'uint32_t',
    btf_vmlinux_value_type_id: 'uint32_t',
    inner_map_fd: 'uint32_t',
    map_flags: 'uint32_t',
  })
  declare('bpf_link_create_opts', LINK_OPTIONS_SIZE, { sz: 'size_t', flags: 'uint32_t' })
  declare('bpf_test_run_opts', TEST_RUN_SIZE, {
    sz: 'size_t',
    data_in: 'const void *',
    data_out: 'void *',
    data_size_in: 'uint32_t',
    data_size_out: 'uint32_t',
    ctx_in: 'const void *',
    ctx_out: 'void *',
    ctx_size_in: 'uint32_t',
    ctx_size_out: 'uint32_t',
    retval: 'uint32_t',
    repeat: 'int',
    duration: 'uint32_t',
    flags: 'uint32_t',
    cpu: 'uint32_t',
    batch_size: 'uint32_t',
  })
}

function declare(name: string, size: number, fields: Record<string, string>): void {
  const type: TypeObject = koffi.struct(name, fields)
  if (type.size !== size) throw new Error(`struct ${name} has ${type.size} bytes on this machine instead of ${size}`)
}
