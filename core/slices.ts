/** Long work on the event loop, in slices. The data plane has such work too and may not know the core. */
export { inSlices, stepwise } from '../dataplane/slices.ts'
