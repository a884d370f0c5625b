// Amazon's SDK for JavaScript at brokers: sends, receives, deletes, FIFO, batches, errors by name.
import {
  ChangeMessageVisibilityCommand,
  CreateQueueCommand,
  DeleteMessageBatchCommand,
  GetQueueAttributesCommand,
  ReceiveMessageCommand,
  SendMessageBatchCommand,
  SendMessageCommand,
  SQSClient,
  SQSServiceException,
  paginateListQueues,
} from "@aws-sdk/client-sqs";

const { endpoint, key, secret, name } = JSON.parse(process.argv[2]);
const client = new SQSClient({
  endpoint,
  region: "eu-central-1",
  credentials: { accessKeyId: key, secretAccessKey: secret },
  maxAttempts: 1,
});
const found = {};
try {
  const { QueueUrl } = await client.send(new CreateQueueCommand({ QueueName: name }));
  found.url = QueueUrl;
  const attributes = {
    text: { DataType: "String", StringValue: "grün" },
    bytes: { DataType: "Binary", BinaryValue: new Uint8Array([0, 255, 1]) },
  };
  // The SDK itself compares the digest of the body with what it is answered.
  const sent = await client.send(
    new SendMessageCommand({ QueueUrl, MessageBody: "hällo", MessageAttributes: attributes }),
  );
  const Entries = Array.from({ length: 9 }, (_, n) => ({ Id: `e${n}`, MessageBody: `m${n}` }));
  const batch = await client.send(new SendMessageBatchCommand({ QueueUrl, Entries }));
  found.sent = batch.Successful.length;
  const wait = { QueueUrl, WaitTimeSeconds: 5, MaxNumberOfMessages: 10 };
  const { Messages } = await client.send(
    new ReceiveMessageCommand({
      ...wait,
      MessageAttributeNames: ["All"],
      MessageSystemAttributeNames: ["All"],
    }),
  );
  found.bodies = Messages.map((each) => each.Body);
  found.sameId = Messages[0].MessageId === sent.MessageId;
  found.bytes = Array.from(Messages[0].MessageAttributes.bytes.BinaryValue);
  found.text = Messages[0].MessageAttributes.text.StringValue;
  await client.send(
    new ChangeMessageVisibilityCommand({
      QueueUrl,
      ReceiptHandle: Messages[0].ReceiptHandle,
      VisibilityTimeout: 0,
    }),
  );
  const again = await client.send(new ReceiveMessageCommand(wait));
  found.again = again.Messages.map((each) => each.Body);
  const handles = [...again.Messages, ...Messages.slice(1)].map((each) => each.ReceiptHandle);
  const deleted = await client.send(
    new DeleteMessageBatchCommand({
      QueueUrl,
      Entries: handles.map((ReceiptHandle, n) => ({ Id: `d${n}`, ReceiptHandle })),
    }),
  );
  found.deleted = deleted.Successful.length;
  const counts = await client.send(
    new GetQueueAttributesCommand({ QueueUrl, AttributeNames: ["All"] }),
  );
  found.left = counts.Attributes.ApproximateNumberOfMessagesNotVisible;
  found.listed = [];
  for await (const page of paginateListQueues({ client, pageSize: 1 }, { QueueNamePrefix: name })) {
    found.listed.push(...(page.QueueUrls ?? []));
  }
  try {
    await client.send(
      new SendMessageCommand({ QueueUrl: `${QueueUrl}-missing`, MessageBody: "x" }),
    );
  } catch (error) {
    found.error = error.name;
    found.isService = error instanceof SQSServiceException;
  }
  console.log(JSON.stringify(found));
} finally {
  client.destroy();
}
