import { engineAnswersContract } from '../../contracts/engine-answers.ts'

engineAnswersContract('node')
