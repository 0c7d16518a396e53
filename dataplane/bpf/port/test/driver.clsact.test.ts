/** driver.test.ts with programs attached by filters of clsact. */
import '../../test/clsact-lane.ts'
import './driver.test.ts'
