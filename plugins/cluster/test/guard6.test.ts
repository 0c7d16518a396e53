import t from 'tap'
import { requireRoot } from '../../../test/netns.ts'
import { guarded } from './guarded.ts'

requireRoot(t)
t.test('the ports of a cluster are for members alone, by IPv6', (t) => guarded(t, 6))
