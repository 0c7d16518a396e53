/** property.test.ts with nft in the place of the programs. */
import './nft-lane.ts'
import './property.test.ts'
