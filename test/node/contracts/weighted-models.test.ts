import { weightedModelsContract } from '../../contracts/weighted-models.ts'

weightedModelsContract('node')
