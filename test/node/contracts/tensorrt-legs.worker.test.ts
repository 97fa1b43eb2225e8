import { tensorrtLegsContract } from '../../contracts/tensorrt-legs.ts'

tensorrtLegsContract('worker')
