/** `npm start`: the agent on 127.0.0.1 with its state in ./.state, ready to be called. Ctrl-C stops it. */
import { spawn } from 'node:child_process'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const state = join(root, '.state')
if (process.getuid?.() !== 0) process.stderr.write('start: not root, so the data plane is off on this run\n')

const child = spawn(process.execPath, [join(root, 'build/core/main.js'), '--quickstart'], {
  stdio: 'inherit',
  env: {
    STRATUM_STATE_DIR: state,
    STRATUM_RUN_DIR: join(state, 'run'),
    STRATUM_CONFIG: join(state, 'stratum.json'),
    STRATUM_API_BIND_ADDRESS: '127.0.0.1',
    UV_THREADPOOL_SIZE: '16',
    ...process.env,
  },
})
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => child.kill(signal))
child.on('exit', (code, signal) => process.exit(signal ? 1 : (code ?? 1)))
