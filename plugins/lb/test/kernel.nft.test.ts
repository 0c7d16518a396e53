/** kernel.test.ts with nft in the place of the programs. */
import './nft-lane.ts'
import './kernel.test.ts'
