import { engineAnswersContract } from '../../contracts/engine-answers.ts'
import { startNodeGateway } from '../../kit/node-gateway.ts'

engineAnswersContract('Node', startNodeGateway)
