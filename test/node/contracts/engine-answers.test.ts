import { engineAnswersContract } from '../../contracts/engine-answers.ts'
import { startSilent } from '../replicas/silent-gateway.ts'

engineAnswersContract('Node', startSilent)
