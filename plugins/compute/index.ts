/**
 * Machines that run on this node: for now their registry, by which endpoints and public addresses are known to be used.
 * Kernel objects: none of its own; what a machine has belongs to the networks, and is taken and given back in one
 * transaction with the registry.
 */
import { defineArea } from '../../core/area.ts'
import { control } from './routes.ts'

export default defineArea(import.meta.url, {
  name: 'compute',
  prefixes: [],
  needs: ['networks'],
  routes: () => {},
  control,
})
