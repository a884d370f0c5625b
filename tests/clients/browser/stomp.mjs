// @stomp/stompjs, as a web page uses it.
import { Client } from "/packages/@stomp/stompjs/esm6/index.js";
import { given, tell } from "./page.mjs";

const { ports, root } = given;
const client = new Client({ brokerURL: `ws://127.0.0.1:${ports[0]}/stomp`, reconnectDelay: 0 });
client.onWebSocketClose = () => tell({ closed: true });
client.onStompError = (frame) => tell({ failed: frame.headers.message });
client.onConnect = () => {
  const heard = ({ headers, body }) => tell({ name: headers.destination, text: body });
  client.watchForReceipt("subscribed", () => {
    tell({ subscribed: true });
    for (let n = 0; n < 3; n += 1) {
      client.publish({ destination: `/topic/${root}.page.${n}`, body: `mé${n}` });
    }
  });
  client.subscribe(`/topic/${root}.#`, heard, { receipt: "subscribed" });
};
client.activate();
