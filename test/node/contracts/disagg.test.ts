import { disaggContract } from '../../contracts/disagg.ts'
import { onNode } from './disagg-node.ts'

disaggContract('a gateway on Node', onNode)
