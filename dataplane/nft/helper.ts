/**
 * The process that hosts libnftables. It is separate because a malformed document can crash the library (observed with
 * 1.0.6), because its calls wait for the kernel's commit mutex, and because the library is GPL.
 *
 * Protocol over the IPC channel: `{id, script}` in, `{id, ok, text}` out, strictly in order. The first message out is
 * `{id: 0, ok, text}` and tells whether the library could be loaded. The process ends with its parent.
 */
import koffi from 'koffi'

export interface Request {
  id: number
  script: string
}
export interface Answer {
  id: number
  ok: boolean
  /** Output of the library, or its error text. */
  text: string
}

/** nftables/libnftables.h: counters are not what a rule says, and names of priorities are not what we say. */
const STATELESS = 1 << 2
const NUMERIC_PRIORITY = 1 << 8

function load(): (script: string) => Omit<Answer, 'id'> {
  const library = koffi.load('libnftables.so.1')
  const context = library.func('void *nft_ctx_new(uint32_t flags)')(0)
  const run = library.func('int nft_run_cmd_from_buffer(void *ctx, const char *buf)')
  const output = library.func('const char *nft_ctx_get_output_buffer(void *ctx)')
  const errors = library.func('const char *nft_ctx_get_error_buffer(void *ctx)')
  library.func('void nft_ctx_output_set_flags(void *ctx, uint32_t flags)')(context, STATELESS | NUMERIC_PRIORITY)
  library.func('int nft_ctx_buffer_output(void *ctx)')(context)
  library.func('int nft_ctx_buffer_error(void *ctx)')(context)
  return (script) => {
    const ok = run(context, script) === 0
    // Both buffers are emptied by reading; an unread one would grow.
    const [text, problem] = [String(output(context) ?? ''), String(errors(context) ?? '')]
    return { ok, text: ok ? text : problem || 'libnftables failed without a message' }
  }
}

function serve(): void {
  // Without a callback an agent that has gone would be an error that nobody catches; `disconnect` tells of it.
  const answer = (message: Answer) => process.send?.(message, () => {})
  let run: ReturnType<typeof load>
  try {
    run = load()
  } catch (error) {
    answer({ id: 0, ok: false, text: error instanceof Error ? error.message : String(error) })
    process.disconnect()
    return
  }
  process.on('message', ({ id, script }: Request) => answer({ id, ...run(script) }))
  process.on('disconnect', () => process.exit(0))
  // The parent decides when to stop: a Ctrl-C on the terminal must not end a transaction half heard.
  process.on('SIGINT', () => {})
  // Nor does it open a debugger, see core/daemon.ts.
  process.on('SIGUSR1', () => {})
  answer({ id: 0, ok: true, text: '' })
}

serve()
