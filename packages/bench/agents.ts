/** Real coding agents before the built gateway. `npm run bench -- agents [--agent claude-code]` */
import { agentsBench } from './field-agents/bench.ts'

export default agentsBench
