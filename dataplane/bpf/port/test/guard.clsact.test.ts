/** guard.test.ts with programs attached by filters of clsact. */
import '../../test/clsact-lane.ts'
import './guard.test.ts'
